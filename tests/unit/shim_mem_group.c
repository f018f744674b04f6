/*
 * shim_mem_group.c - proves that the members of a group never have more than the limit
 * together, that what a killed one had can be charged again, and that a file which is no
 * ledger, and a full one, are told.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_wait.h"
#include "mem_group.h"
#include "process_start.h"

#define LIMIT 1000u

/* The ledger's layout. */
enum { MEMBERS = 512, FIRST_MEMBER = 8 * (3 + GS_MAX_DEVICES), START_BITS = 39 };
struct member {
    uint64_t owner, namespace, charged[GS_MAX_DEVICES], tried[GS_MAX_DEVICES],
        wanted[GS_MAX_DEVICES], wanted_at, gives;
};

static char path[64];

/* A group of the test's own. */
static uint64_t *join(void)
{
    gs_group_reset();
    gs_group_start(path);
    return gs_group_join("0000:01:00.0");
}

static void set_up(void)
{
    snprintf(path, sizeof path, "/dev/shm/gpushim-test.%d", (int)getpid());
    unlink(path);
}

static void tear_down(void)
{
    gs_group_reset();
    unlink(path);
}

TestSuite(mem_group, .init = set_up, .fini = tear_down);

static void redirect_and_set_up(void)
{
    cr_redirect_stderr();
    set_up();
}

/* A process that charges `bytes` and is killed, or that ends. */
static void other_process(uint64_t bytes, bool killed)
{
    pid_t child = fork();

    if (child == 0) {
        uint64_t *charge = join();
        bool good = charge && gs_group_charge(charge, bytes, LIMIT);
        if (killed && good)
            raise(SIGKILL);
        _exit(good ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(killed ? WIFSIGNALED(status)
                     : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

Test(mem_group, without_a_name_there_is_none)
{
    gs_group_start("");
    cr_expect_not(gs_group_wanted());
    cr_expect_null(gs_group_join("0000:01:00.0"));
}

Test(mem_group, charges_up_to_the_limit)
{
    uint64_t *charge = join();

    cr_assert_not_null(charge);
    cr_expect(gs_group_charge(charge, LIMIT - 1, LIMIT));
    cr_expect_not(gs_group_charge(charge, 2, LIMIT));
    cr_expect_not(gs_group_charge(charge, UINT64_MAX, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT - 1);
    cr_expect(gs_group_charge(charge, 1, LIMIT));
}

Test(mem_group, a_device_has_a_sum_of_its_own)
{
    uint64_t *first = join(), *second = gs_group_join("0000:02:00.0");

    cr_assert(first && second && first != second);
    cr_expect_eq(gs_group_join("0000:01:00.0"), first);
    cr_expect(gs_group_charge(first, LIMIT, LIMIT));
    cr_expect(gs_group_charge(second, LIMIT, LIMIT));
    cr_expect_eq(gs_group_charged(second), LIMIT);
}

Test(mem_group, what_a_process_had_comes_back_when_it_has_ended)
{
    for (unsigned i = 0; i < 4; i++)
        other_process(LIMIT, i % 2);
    uint64_t *charge = join();
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT);
}

/* Without a new member, which would look for ended ones. */
Test(mem_group, what_a_process_had_comes_back_to_those_who_were_there)
{
    uint64_t *charge = join();

    for (unsigned i = 0; i < 2; i++) {
        other_process(LIMIT, true);
        cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
        cr_expect_eq(gs_group_charged(charge), LIMIT);
        __atomic_sub_fetch(charge, LIMIT, __ATOMIC_RELAXED);
    }
}

/* Its number may be a running process's there. */
Test(mem_group, a_process_of_another_namespace_is_not_taken_for_dead)
{
    enum { NAMESPACE_OF_FIRST = FIRST_MEMBER + 8 };
    uint64_t another = 1;

    other_process(LIMIT, false);
    int file = open(path, O_RDWR);
    cr_assert_eq(pwrite(file, &another, sizeof another, NAMESPACE_OF_FIRST),
                 sizeof another);
    close(file);
    uint64_t *charge = join();
    cr_expect_eq(gs_group_charged(charge), LIMIT);
    cr_expect_not(gs_group_charge(charge, 1, LIMIT));
}

/* As after `exec`, which keeps number and start. */
Test(mem_group, the_program_before_has_nothing)
{
    uint64_t *charge = join();

    cr_assert(gs_group_charge(charge, LIMIT, LIMIT));
    charge = join();
    cr_expect_eq(gs_group_charged(charge), 0);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

static pid_t fork_member(uint64_t bytes, void (*then)(void))
{
    pid_t child = fork();

    if (child == 0) {
        uint64_t *charge = join();
        if (!charge || !gs_group_charge(charge, bytes, LIMIT))
            _exit(1);
        then();
        _exit(0);
    }
    return child;
}

static void wait_for_charge(const uint64_t *charge, uint64_t bytes)
{
    for (unsigned i = 0; i < 2000 && gs_group_charged(charge) != bytes; i++)
        gs_nap(1000000);
    cr_assert_eq(gs_group_charged(charge), bytes);
}

/* As before `exec`, and after one that failed. Its member is nobody else's meanwhile. */
Test(mem_group, a_process_leaves_and_comes_back)
{
    uint64_t *charge = join();

    cr_assert(gs_group_charge(charge, LIMIT, LIMIT));
    gs_group_leave();
    cr_expect_eq(gs_group_charged(charge), 0);
    other_process(LIMIT, false);
    gs_group_return();
    cr_expect_eq(*charge, LIMIT);
    wait_for_charge(charge, LIMIT);
    gs_group_leave();
    charge = join();
    cr_expect_eq(gs_group_charged(charge), 0);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

static void end_member(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void stay(void)
{
    for (;;)
        pause();
}

/* Also if it is not the first free member. */
Test(mem_group, the_program_before_has_nothing_behind_others)
{
    pid_t other = fork_member(1, stay);
    gs_nap(200000000);
    uint64_t *charge = join();

    wait_for_charge(charge, 1);
    cr_assert(gs_group_charge(charge, LIMIT - 1, LIMIT));
    end_member(other);
    charge = join();
    cr_expect_eq(gs_group_charged(charge), 0);
}

static void *stay_in_thread(void *unused)
{
    stay();
    return unused;
}

static void go_on_without_the_first_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, stay_in_thread, NULL);
    pthread_exit(NULL);
}

/* /proc calls it a zombie. */
Test(mem_group, a_process_without_its_first_thread_runs)
{
    uint64_t *charge = join();
    pid_t other = fork_member(LIMIT, go_on_without_the_first_thread);

    wait_for_charge(charge, LIMIT);
    gs_nap(300000000);
    cr_expect_not(gs_group_charge(charge, 1, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT);
    end_member(other);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

/* Nothing in /proc can be read then. */
Test(mem_group, a_process_without_descriptors_takes_nobody_for_dead)
{
    struct rlimit was, none = {0, 0};
    uint64_t *charge = join();
    pid_t other = fork_member(LIMIT, stay);

    wait_for_charge(charge, LIMIT);
    getrlimit(RLIMIT_NOFILE, &was);
    none.rlim_max = was.rlim_max;
    setrlimit(RLIMIT_NOFILE, &none);
    bool charged = gs_group_charge(charge, 1, LIMIT);
    setrlimit(RLIMIT_NOFILE, &was);
    cr_expect_not(charged);
    cr_expect_eq(gs_group_charged(charge), LIMIT);
    end_member(other);
}

/* More processes than there are members, one after the other. */
Test(mem_group, members_that_have_ended_make_room)
{
    for (unsigned i = 0; i < 600; i++)
        other_process(1, false);
    uint64_t *charge = join();
    cr_assert_not_null(charge);
    cr_expect_eq(gs_group_charged(charge), 0);
}

/* ---- many processes ---------------------------------------------------------------- */

enum { PROCESSES = 16, KEPT = 4 };

/* What all processes have by their own account, which is never more than their charges.
 */
struct account {
    uint64_t held, over, charges;
};

static void charge_at_random(struct account *account, unsigned seed, unsigned turns)
{
    uint64_t *charge = join(), kept[KEPT] = {0};

    for (unsigned i = 0; charge && i < turns; i++) {
        uint64_t *slot = &kept[(unsigned)rand_r(&seed) % KEPT];
        uint64_t bytes = 1 + (unsigned)rand_r(&seed) % 100;
        if (*slot) {
            __atomic_sub_fetch(&account->held, *slot, __ATOMIC_SEQ_CST);
            __atomic_sub_fetch(charge, *slot, __ATOMIC_SEQ_CST);
            *slot = 0;
        } else if (gs_group_charge(charge, bytes, LIMIT)) {
            *slot = bytes;
            if (__atomic_add_fetch(&account->held, bytes, __ATOMIC_SEQ_CST) > LIMIT)
                __atomic_add_fetch(&account->over, 1, __ATOMIC_RELAXED);
            __atomic_add_fetch(&account->charges, 1, __ATOMIC_RELAXED);
        }
    }
    for (unsigned i = 0; i < KEPT; i++)
        __atomic_sub_fetch(&account->held, kept[i], __ATOMIC_SEQ_CST);
}

static pid_t start(struct account *account, unsigned seed, unsigned turns)
{
    pid_t child = fork();

    if (child == 0) {
        charge_at_random(account, seed, turns);
        _exit(0);
    }
    return child;
}

static struct account *make_account(void)
{
    struct account *account = mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(account, MAP_FAILED);
    return account;
}

Test(mem_group, all_together_never_have_more_than_the_limit)
{
    struct account *account = make_account();

    for (unsigned i = 0; i < PROCESSES; i++)
        start(account, i, 3000);
    while (wait(NULL) > 0) {
    }
    cr_expect_eq(account->over, 0);
    cr_expect_gt(account->charges, PROCESSES * 100);
    uint64_t *charge = join();
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

/* Killed at any point, also while they join; in the end all of it is there. */
Test(mem_group, processes_that_are_killed_leave_nothing)
{
    struct account *account = make_account();
    pid_t children[PROCESSES];
    unsigned seed = 1;

    for (unsigned i = 0; i < PROCESSES; i++)
        children[i] = start(account, i, UINT32_MAX);
    for (unsigned turn = 0; turn < 200; turn++) {
        unsigned i = (unsigned)rand_r(&seed) % PROCESSES;
        gs_nap((unsigned)rand_r(&seed) % 1000000);
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
        children[i] = start(account, 100 + turn, UINT32_MAX);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    uint64_t *charge = join();
    cr_assert_not_null(charge);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT);
}

/* ---- bad input --------------------------------------------------------------------- */

static void expect_alone(const char *name, const char *line)
{
    char text[512];

    gs_group_reset();
    gs_group_start(name);
    cr_expect_null(gs_group_join("0000:01:00.0"));
    cr_expect_null(gs_group_join("0000:01:00.0")); /* one line */
    fflush(stderr);
    snprintf(text, sizeof text, "gpushim: GPUSHIM_MEM_GROUP=%s\n", line);
    cr_assert_stderr_eq_str(text);
}

Test(mem_group, a_name_that_is_none, .init = cr_redirect_stderr)
{
    expect_alone("a b",
                 "a b: not a path, nor a name of at most 64 letters, digits and . _ -; "
                 "ignored");
}

Test(mem_group, a_folder, .init = cr_redirect_stderr)
{
    expect_alone("/tmp/",
                 "/tmp/: /tmp/: is a directory; GPUSHIM_MEM_LIMIT counts this process "
                 "alone");
}

/* The layout of a ledger. */
/* A process that runs: this one's parent. */
static void fill_members(unsigned first, unsigned end)
{
    struct member member = {0};
    struct stat space;
    uint64_t start;

    cr_assert_eq(gs_process_start(getppid(), &start), GS_OK);
    cr_assert_eq(stat("/proc/self/ns/pid", &space), 0);
    member.owner = UINT64_C(1) << 63 | (uint64_t)getppid() << START_BITS |
                   (start & ((UINT64_C(1) << START_BITS) - 1));
    member.namespace = space.st_ino;
    int file = open(path, O_RDWR);
    for (unsigned i = first; i < end; i++)
        cr_assert_eq(pwrite(file, &member, sizeof member,
                            FIRST_MEMBER + (off_t)(i * sizeof member)),
                     sizeof member);
    cr_assert_eq(pwrite(file, &(uint64_t){MEMBERS}, 8, 8), 8); /* all are used */
    close(file);
}

Test(mem_group, a_full_one, .init = redirect_and_set_up)
{
    char line[256];

    cr_assert_not_null(join());
    fill_members(0, MEMBERS);
    snprintf(line, sizeof line,
             "%s: %s: it is full; GPUSHIM_MEM_LIMIT counts this process alone", path,
             path);
    expect_alone(path, line);
}

/* The ledger as a program of another version would see it; the second of its members is
 * another process that has nothing. */
static struct member *other_member(void)
{
    int file = open(path, O_RDWR);
    char *ledger = mmap(NULL, FIRST_MEMBER + MEMBERS * sizeof(struct member),
                        PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    cr_assert_neq(ledger, MAP_FAILED);
    fill_members(1, 2);
    close(file);
    return (struct member *)(ledger + FIRST_MEMBER) + 1;
}

/* Nothing is offered by a process itself, by one that has nothing, or will not. */
Test(mem_group, idle_memory_is_offered)
{
    uint64_t *charge = join();
    struct member *other = other_member();

    cr_assert(gs_group_charge(charge, 1, LIMIT));
    gs_group_offer(true);
    cr_expect_not(gs_group_offered(charge));
    other->gives = 1;
    cr_expect_not(gs_group_offered(charge));
    other->charged[0] = 1;
    cr_expect(gs_group_offered(charge));
    cr_expect_eq(gs_group_charged_by_others(charge), 1);
    cr_expect_not(gs_group_offered(gs_group_join("0000:02:00.0")));
    other->owner = 0;
    cr_expect_not(gs_group_offered(charge));
}

/* What a member asks for is seen by the others, not by itself, for a second. What its own
 * threads ask for adds up. */
Test(mem_group, idle_memory_is_asked_for)
{
    cr_assert_eq(gs_group_requests(), 0);
    uint64_t *charge = join();
    struct member *other = other_member(), *own = other - 1;

    other->wanted[0] = 100;
    other->wanted_at = gs_now_coarse_ns() + 3600 * UINT64_C(1000000000);
    cr_expect_eq(gs_group_wanted_by_others(charge), 0, "of another time");
    other->wanted_at = gs_now_coarse_ns() - UINT64_C(1100000000);
    cr_expect_eq(gs_group_wanted_by_others(charge), 0, "of a second ago");
    for (unsigned i = 0; i < 1000 && gs_group_wanted_by_others(charge) != 100; i++)
        other->wanted_at = gs_now_coarse_ns();
    cr_expect_eq(gs_group_wanted_by_others(charge), 100);
    cr_expect_eq(gs_group_wanted_by_others(gs_group_join("0000:02:00.0")), 0);
    gs_group_want(charge, 7);
    gs_group_want(charge, 5);
    cr_expect_eq(gs_group_requests(), 2);
    cr_expect_eq(own->wanted[0], 12);
    cr_expect_lt(gs_now_coarse_ns() - own->wanted_at, UINT64_C(60000000000));
    gs_group_want_no_longer(charge, 7);
    cr_expect_eq(own->wanted[0], 5);
    cr_expect_eq(gs_group_requests(), 2);
}

static void *withdraw(void *charge)
{
    gs_nap(200000);
    __atomic_sub_fetch((uint64_t *)charge, LIMIT, __ATOMIC_SEQ_CST);
    return NULL;
}

/* How often of 20 times a charge succeeds although another's attempt is in the way, which
 * is withdrawn meanwhile. To look whether 500 others run takes longer. */
static unsigned charge_in_spite(uint64_t *charge, uint64_t *others)
{
    unsigned charged = 0;

    for (unsigned i = 0; i < 20; i++) {
        pthread_t thread;
        __atomic_add_fetch(others, LIMIT, __ATOMIC_SEQ_CST);
        cr_assert_eq(pthread_create(&thread, NULL, withdraw, others), 0);
        if (gs_group_charge(charge, 1, LIMIT)) {
            charged++;
            __atomic_sub_fetch(charge, 1, __ATOMIC_SEQ_CST);
        }
        pthread_join(thread, NULL);
    }
    return charged;
}

/* A busy machine may be later with the withdrawal, and without the attempts a charge may
 * be late now and then: so one round of many has to be a good one. */
Test(mem_group, an_attempt_in_the_way_refuses_nobody)
{
    uint64_t *charge = join();
    struct member *other = other_member();
    unsigned charged = 0;

    fill_members(1, MEMBERS);
    for (unsigned i = 0; i < 30 && charged < 10; i++)
        charged = charge_in_spite(charge, &other->tried[0]);
    cr_expect_geq(charged, 10);
}

Test(mem_group, another_file)
{
    char line[256];
    FILE *file = fopen(path, "w");

    cr_redirect_stderr();
    cr_assert_not_null(file);
    fputs("precious data", file);
    fclose(file);
    snprintf(line, sizeof line,
             "%s: %s: not a ledger of this version; GPUSHIM_MEM_LIMIT counts this "
             "process alone",
             path, path);
    expect_alone(path, line);
    char text[32] = "";
    file = fopen(path, "r");
    cr_assert_eq(fread(text, 1, sizeof text, file), strlen("precious data"));
    fclose(file);
    cr_expect_str_eq(text, "precious data");
}

/*
 * shim_mem_group.c - proves that the members of a group never have more than the limit
 * together, that what a killed one had can be charged again, that a file which is no
 * ledger and a full one are logged and stay as they are, and that no end of the file, of
 * its name or of a descriptor ends a member.
 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_wait.h"
#include "shim/limits/ledger.h"
#include "shim/limits/mem_group.h"

#define LIMIT 1000u

static char path[64];

/* A group of the test's own. */
static int join(void)
{
    gs_group_reset();
    gs_group_start(path);
    return gs_group_join("0000:01:00.0");
}

static void set_up(void)
{
    snprintf(path, sizeof(path), "/dev/shm/gpushim-test.%d", (int)getpid());
    unlink(path);
}

/* The ledger as another process sees it. */
static struct gs_ledger *map_ledger(void)
{
    int file = open(path, O_RDWR);
    struct gs_ledger *ledger =
        mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    cr_assert_neq(ledger, MAP_FAILED);
    close(file);
    return ledger;
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
        int charge = join();
        bool good = charge >= 0 && gs_group_charge(charge, bytes, LIMIT);
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
    cr_expect_eq(gs_group_join("0000:01:00.0"), -1);
}

Test(mem_group, charges_up_to_the_limit)
{
    int charge = join();

    cr_assert_geq(charge, 0);
    cr_expect(gs_group_charge(charge, LIMIT - 1, LIMIT));
    cr_expect_not(gs_group_charge(charge, 2, LIMIT));
    cr_expect_not(gs_group_charge(charge, UINT64_MAX, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT - 1);
    cr_expect(gs_group_charge(charge, 1, LIMIT));
}

Test(mem_group, a_device_has_a_sum_of_its_own)
{
    int first = join(), second = gs_group_join("0000:02:00.0");

    cr_assert(first >= 0 && second >= 0 && first != second);
    cr_expect_eq(gs_group_join("0000:01:00.0"), first);
    cr_expect(gs_group_charge(first, LIMIT, LIMIT));
    cr_expect(gs_group_charge(second, LIMIT, LIMIT));
    cr_expect_eq(gs_group_charged(second), LIMIT);
}

Test(mem_group, what_a_process_had_comes_back_when_it_has_ended)
{
    for (unsigned i = 0; i < 4; i++)
        other_process(LIMIT, i % 2);
    int charge = join();
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT);
}

/* Without a new member, which would look for ended ones. */
Test(mem_group, what_a_process_had_comes_back_to_those_who_were_there)
{
    int charge = join();

    for (unsigned i = 0; i < 2; i++) {
        other_process(LIMIT, true);
        cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
        cr_expect_eq(gs_group_charged(charge), LIMIT);
        gs_group_add(charge, -(uint64_t)LIMIT);
    }
}

/* As after `exec`, which keeps number and start. */
Test(mem_group, the_program_before_has_nothing)
{
    int charge = join();

    cr_assert(gs_group_charge(charge, LIMIT, LIMIT));
    charge = join();
    cr_expect_eq(gs_group_charged(charge), 0);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

static pid_t fork_member(uint64_t bytes, void (*then)(void))
{
    pid_t child = fork();

    if (child == 0) {
        int charge = join();
        if (charge < 0 || !gs_group_charge(charge, bytes, LIMIT))
            _exit(1);
        then();
        _exit(0);
    }
    return child;
}

static void wait_for_charge(int charge, uint64_t bytes)
{
    for (unsigned i = 0; i < 2000 && gs_group_charged(charge) != bytes; i++)
        gs_nap(1000000);
    cr_assert_eq(gs_group_charged(charge), bytes);
}

static void end_member(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void stay(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

/* Its number may be a running process's here: its lock alone tells. */
Test(mem_group, a_process_of_another_namespace_that_has_ended_has_nothing)
{
    other_process(LIMIT, false);
    struct gs_ledger *ledger = map_ledger();
    ledger->owner[0] = (uint64_t)getppid() << 39;
    ledger->space[0] = 1;
    int charge = join();
    cr_expect_eq(gs_group_charged(charge), 0);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

/* Its number and start are nobody's here: its lock alone tells. */
Test(mem_group, a_process_of_another_namespace_that_runs_has_its_memory)
{
    int charge = join();
    pid_t other = fork_member(LIMIT, stay);

    wait_for_charge(charge, LIMIT);
    struct gs_ledger *ledger = map_ledger();
    ledger->owner[1] = (uint64_t)4194304 << 39;
    ledger->space[1] = 1;
    cr_expect_not(gs_group_charge(charge, 1, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT);
    end_member(other);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

static void close_all_and_stay(void)
{
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
    stay();
}

static void leave_a_child(void)
{
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
        for (unsigned i = 0; i < 20; i++)
            gs_nap(100000000);
        _exit(0);
    }
}

/* The program closes no descriptor of the lock. */
Test(mem_group, a_member_without_descriptors_keeps_its_memory)
{
    int charge = join();
    pid_t other = fork_member(LIMIT, close_all_and_stay);

    wait_for_charge(charge, LIMIT);
    gs_nap(300000000);
    cr_expect_not(gs_group_charge(charge, 1, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT);
    end_member(other);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

/* A child that lives on has neither the lock nor the memory of its parent; by a bare fork
 * too, which runs no handler. */
Test(mem_group, a_child_does_not_keep_what_its_parent_had)
{
    int charge = join();
    pid_t other = fork_member(LIMIT, leave_a_child);
    int status;

    cr_assert_eq(waitpid(other, &status, 0), other);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
}

/* Also if it is not the first free member. */
Test(mem_group, the_program_before_has_nothing_behind_others)
{
    pid_t other = fork_member(1, stay);
    gs_nap(200000000);
    int charge = join();

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
    int charge = join();
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
    int charge = join();
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
    int charge = join();
    cr_assert_geq(charge, 0);
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
    int charge = join();
    uint64_t kept[KEPT] = {0};

    for (unsigned i = 0; charge >= 0 && i < turns; i++) {
        uint64_t *slot = &kept[(unsigned)rand_r(&seed) % KEPT];
        uint64_t bytes = 1 + (unsigned)rand_r(&seed) % 100;
        if (*slot) {
            __atomic_sub_fetch(&account->held, *slot, __ATOMIC_SEQ_CST);
            gs_group_add(charge, -*slot);
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
    struct account *account = mmap(NULL, sizeof(*account), PROT_READ | PROT_WRITE,
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
    int charge = join();
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
    int charge = join();
    cr_assert_geq(charge, 0);
    cr_expect(gs_group_charge(charge, LIMIT, LIMIT));
    cr_expect_eq(gs_group_charged(charge), LIMIT);
}

/* ---- bad input --------------------------------------------------------------------- */

static void expect_alone(const char *name, const char *line)
{
    char text[512];

    gs_group_reset();
    gs_group_start(name);
    cr_expect_eq(gs_group_join("0000:01:00.0"), -1);
    cr_expect_eq(gs_group_join("0000:01:00.0"), -1); /* one line */
    fflush(stderr);
    snprintf(text, sizeof(text), "gpushim: GPUSHIM_MEM_GROUP=%s\n", line);
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

/* A process that has locked the bytes of all members. */
static pid_t take_all(void)
{
    int made[2];
    char byte;
    pid_t child;

    cr_assert_eq(pipe(made), 0);
    child = fork();
    if (child == 0) {
        int file = open(path, O_RDWR);
        for (unsigned i = 0; i < GS_LEDGER_MEMBERS; i++)
            (void)!gs_ledger_lock(file, i);
        (void)!write(made[1], "", 1);
        stay();
    }
    cr_assert_eq(read(made[0], &byte, 1), 1);
    return child;
}

Test(mem_group, a_full_one, .init = redirect_and_set_up)
{
    char line[256];

    cr_assert_geq(join(), 0);
    gs_group_reset();
    pid_t others = take_all();
    snprintf(line, sizeof(line),
             "%s: %s: it is full; GPUSHIM_MEM_LIMIT counts this process alone", path,
             path);
    expect_alone(path, line);
    end_member(others);
}

/* The number of another member, which has no process. */
enum { OTHER = 1 };

/* Nothing is offered by a process itself, by one that has nothing, or will not. */
Test(mem_group, idle_memory_is_offered)
{
    int charge = join();
    struct gs_ledger *ledger = map_ledger();

    cr_assert(gs_group_charge(charge, 1, LIMIT));
    gs_group_offer(true);
    cr_expect_not(gs_group_offered(charge));
    ledger->gives[OTHER] = 1;
    cr_expect_not(gs_group_offered(charge));
    ledger->of[0].charged[OTHER] = 1;
    cr_expect(gs_group_offered(charge));
    cr_expect_eq(gs_group_charged_by_others(charge), 1);
    cr_expect_not(gs_group_offered(gs_group_join("0000:02:00.0")));
    ledger->of[0].charged[OTHER] = 0;
    cr_expect_not(gs_group_offered(charge));
}

/* What a member asks for is seen by the others, not by itself, for a second. What its own
 * threads ask for adds up. */
Test(mem_group, idle_memory_is_asked_for)
{
    cr_assert_eq(gs_group_requests(), 0);
    int charge = join();
    struct gs_ledger *ledger = map_ledger();

    ledger->of[0].wanted[OTHER] = 100;
    ledger->requests[OTHER] = 1;
    cr_expect_eq(gs_group_wanted_by_others(charge), 100);
    cr_expect_eq(gs_group_wanted_by_others(gs_group_join("0000:02:00.0")), 0);
    gs_nap(1100000000);
    cr_expect_eq(gs_group_wanted_by_others(charge), 0, "of a second ago");
    ledger->requests[OTHER] = 2;
    cr_expect_eq(gs_group_wanted_by_others(charge), 100, "once more");
    gs_group_want(charge, 7);
    gs_group_want(charge, 5);
    cr_expect_eq(gs_group_requests(), 4);
    cr_expect_eq(ledger->of[0].wanted[0], 12);
    gs_group_want_no_longer(charge, 7);
    cr_expect_eq(ledger->of[0].wanted[0], 5);
    cr_expect_eq(gs_group_requests(), 4);
}

/* Another's attempt, which is withdrawn soon after it was made. */
struct attempt {
    uint64_t *tried;
    bool made; /* atomic */
};

/* Runs already when the attempt is made: a start takes longer than a charge waits. */
static void *withdraw(void *self)
{
    struct attempt *attempt = self;

    while (!__atomic_load_n(&attempt->made, __ATOMIC_ACQUIRE))
        sched_yield();
    gs_nap(200000);
    __atomic_sub_fetch(attempt->tried, LIMIT, __ATOMIC_SEQ_CST);
    return NULL;
}

/* How often of 20 times a charge succeeds although another's attempt is in the way, which
 * is withdrawn meanwhile. */
static unsigned charge_in_spite(int charge, uint64_t *others)
{
    unsigned charged = 0;

    for (unsigned i = 0; i < 20; i++) {
        struct attempt attempt = {.tried = others};
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, withdraw, &attempt), 0);
        __atomic_add_fetch(others, LIMIT, __ATOMIC_SEQ_CST);
        __atomic_store_n(&attempt.made, true, __ATOMIC_RELEASE);
        if (gs_group_charge(charge, 1, LIMIT)) {
            charged++;
            gs_group_add(charge, -(uint64_t)1);
        }
        pthread_join(thread, NULL);
    }
    return charged;
}

/* A busy machine may be later with the withdrawal, and without the attempts a charge may
 * be late now and then: so one round within half a minute has to be a good one. */
Test(mem_group, an_attempt_in_the_way_refuses_nobody)
{
    int charge = join();
    struct gs_ledger *ledger = map_ledger();
    unsigned charged = 0;

    for (uint64_t end_ns = gs_now_ns() + 30000000000u;
         charged < 10 && gs_now_ns() < end_ns;)
        charged = charge_in_spite(charge, &ledger->of[0].tried[OTHER]);
    cr_expect_geq(charged, 10);
}

/* ---- the file's own ends -------------------------------------------------------------
 */

/* A mapping that is touched then would end the process by SIGBUS. */
Test(mem_group, a_shortened_ledger_ends_nobody, .init = redirect_and_set_up)
{
    char line[512];
    int charge = join();

    cr_assert(gs_group_charge(charge, 7, LIMIT));
    cr_assert_eq(truncate(path, 0), 0);
    cr_expect(gs_group_charge(charge, LIMIT - 7, LIMIT));
    cr_expect_not(gs_group_charge(charge, 1, LIMIT), "what this process has counts");
    gs_group_add(charge, -(uint64_t)7);
    cr_expect_eq(gs_group_charged(charge), LIMIT - 7);
    gs_group_want(charge, 1);
    cr_expect_eq(gs_group_wanted_by_others(charge), 0);
    fflush(stderr);
    snprintf(line, sizeof(line),
             "gpushim: GPUSHIM_MEM_GROUP=%s: %s: was shortened while in use; from now on "
             "GPUSHIM_MEM_LIMIT counts this process alone\n",
             path, path);
    cr_assert_stderr_eq_str(line);
}

/* Members go on together; what cannot be found out any more is logged once. */
Test(mem_group, a_removed_ledger_goes_on, .init = redirect_and_set_up)
{
    char line[512];
    int charge = join();
    pid_t other = fork_member(7, stay);

    wait_for_charge(charge, 7);
    cr_assert_eq(unlink(path), 0);
    cr_expect(gs_group_charge(charge, LIMIT - 7, LIMIT));
    cr_expect_not(gs_group_charge(charge, 1, LIMIT));
    cr_expect_not(gs_group_charge(charge, 1, LIMIT));
    end_member(other);
    fflush(stderr);
    snprintf(line, sizeof(line),
             "gpushim: GPUSHIM_MEM_GROUP=%s: %s: was removed or replaced, or can no "
             "longer be opened; memory of members that have ended stays charged\n",
             path, path);
    cr_assert_stderr_eq_str(line);
}

/* Writes a file, which the group must refuse with this reason and leave as it is. */
static void expect_left(const void *data, size_t length, const char *reason)
{
    char line[512], now[64];
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    cr_redirect_stderr();
    cr_assert_eq(write(file, data, length), (ssize_t)length);
    snprintf(line, sizeof(line),
             "%s: %s: %s; GPUSHIM_MEM_LIMIT counts this process alone", path, path,
             reason);
    expect_alone(path, line);
    cr_expect_eq(pread(file, now, sizeof(now), 0), (ssize_t)length);
    cr_expect_eq(memcmp(now, data, length), 0);
    close(file);
}

#define NO_LEDGER "not the file of a group; not changed"

Test(mem_group, another_file)
{
    expect_left("precious data", 13, NO_LEDGER);
}

/* An array whose first number is 0. */
Test(mem_group, another_file_that_begins_with_zeros)
{
    expect_left((const double[]){0, 1, 2}, 24, NO_LEDGER);
}

Test(mem_group, an_empty_file)
{
    expect_left("", 0, NO_LEDGER);
}

Test(mem_group, a_ledger_of_another_version)
{
    expect_left("rgsgup03 and more", 17,
                "a ledger of another version of gpushim: remove it once no process uses "
                "it");
}

Test(mem_group, a_ledger_that_was_shortened)
{
    expect_left("rgsgup04 and less", 17,
                "a ledger that was shortened: remove it once no process uses it");
}

/* Processes that create it at once all get the same, and none a part of it. */
Test(mem_group, a_ledger_is_created_once)
{
    for (unsigned round = 0; round < 20; round++) {
        unlink(path);
        for (unsigned i = 0; i < PROCESSES; i++)
            if (fork() == 0) {
                int charge = join();
                _exit(charge >= 0 && gs_group_charge(charge, 1, LIMIT) ? 0 : 1);
            }
        for (int status; wait(&status) > 0;)
            cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

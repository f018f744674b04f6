/*
 * mem_group.c - the charges of a group's processes, and whether a charge fits.
 *
 * Each process writes its charges into a member of its own, and adds up all members to
 * see whether a charge fits. So there is no lock that a killed or stopped process could
 * leave locked, and no sum that it could leave wrong. A member has a locked byte
 * (ledger.h); if its byte is unlocked, its process has ended, or has become another
 * program. The kernel releases the lock just before it closes the process's devices: a
 * member of this namespace counts until its process has gone.
 *
 * An attempt to charge is a word of its own. Two processes that ask for the last memory
 * at once may see each other's attempt: both withdraw, and try again after waits of
 * different lengths. Charges refuse at once, attempts do not.
 *
 * Owns:   this process's member and its own account of it.
 * Lock:   join_lock while the group is joined, own_lock for the account; each word of the
 *         ledger has one writer.
 * Design: docs/tuning.md
 */
#include "shim/limits/mem_group.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "shim/limits/group_name.h"
#include "shim/limits/ledger.h"
#include "shim/settings/log.h"
#include "shim/settings/process_start.h"
#include "shim/settings/start_folder.h"
#include "tracker/names/loader_gate.h"

#define MEMBERS GS_LEDGER_MEMBERS

/* An owner: the process's number, not 0, and the low bits of its start. */
#define START_BITS 39
#define START_MASK ((UINT64_C(1) << START_BITS) - 1)

/* Attempts to charge the last memory, and the wait between two. */
#define ATTEMPTS 5
#define NAP_NS   ((uint64_t)20000)
/* What members want counts for so long after the last request. */
#define WANTED_NS ((uint64_t)1000000000)
/* The shortest interval between two searches for members that have ended. */
#define SEARCH_NS ((uint64_t)100000000)
/* Owners that a search reads at once. */
#define AT_ONCE 64
/* Tries to lock the table of devices, which a member holds for microseconds. */
#define LOCK_TRIES  1000
#define LOCK_NAP_NS ((uint64_t)1000000)

static struct gs_mutex join_lock = GS_MUTEX(GS_RANK_LIMITS);
static struct gs_mutex own_lock = GS_MUTEX(GS_RANK_GROUP);
static char group_path[PATH_MAX];   /* "": no group; immutable after start */
static const char *group_name = ""; /* the user's word */
static bool failed;                 /* to join; under join_lock */
static struct gs_ledger *words;     /* atomic; NULL: not joined */
static bool alone;                  /* atomic: the ledger was shortened */
static bool unreachable;            /* atomic: the ledger has lost its name */
static uint64_t next_search;        /* atomic; a time */

/* What this process writes into the ledger; under own_lock. `number` and `space` are
 * immutable once the group is joined. */
static struct {
    unsigned number;
    uint64_t space; /* namespace of process numbers; 0: /proc does not tell */
    uint64_t requests;
    bool gives;
    struct account {
        uint64_t charged, tried, wanted;
    } of[GS_MAX_DEVICES];
} own;

/* Copies of a word of each member; under own_lock. */
static uint64_t copies[MEMBERS], other_copies[MEMBERS];

/* ---- start ------------------------------------------------------------------------- */

void gs_group_start(const char *name)
{
    int length = 0;
    group_path[0] = '\0';
    group_name = name;
    if (name[0] == '\0') {
        return;
    }
    if (strchr(name, '/')) {
        gs_start_folder_absolute(name, group_path);
        length = (int)strlen(group_path);
    } else if (gs_group_is_name(name)) {
        length = snprintf(group_path, sizeof(group_path), "/dev/shm/gpushim.%ld.%s.group",
                          (long)syscall(SYS_geteuid), name);
    }
    if (length <= 0 || length >= (int)sizeof(group_path)) {
        group_path[0] = '\0';
        gs_log_line(GS_LOG_WARN, "GPUSHIM_MEM_GROUP=%.100s: " GS_GROUP_WRONG "; ignored",
                    name);
    }
}

void gs_group_reset(void)
{
    gs_mutex_init(&join_lock, GS_RANK_LIMITS);
    gs_mutex_init(&own_lock, GS_RANK_GROUP);
    gs_ledger_close();
    memset(&own, 0, sizeof(own));
    words = NULL;
    failed = alone = unreachable = false;
    group_path[0] = '\0';
    next_search = 0;
}

bool gs_group_wanted(void)
{
    return group_path[0] != '\0';
}

/* ---- the ledger -------------------------------------------------------------------- */

static struct gs_ledger *joined_ledger(void)
{
    return __atomic_load_n(&words, __ATOMIC_ACQUIRE);
}

/* From now on counts this process alone: with stale words the group would refuse or grant
 * at random. */
static void go_on_alone(void)
{
    if (!__atomic_exchange_n(&alone, true, __ATOMIC_SEQ_CST)) {
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_MEM_GROUP=%.400s: %.400s: was shortened while in use; from "
                    "now on GPUSHIM_MEM_LIMIT counts this process alone",
                    group_name, group_path);
    }
}

static bool is_alone(void)
{
    return __atomic_load_n(&alone, __ATOMIC_SEQ_CST);
}

/* Writes a word, after all earlier ones and before all later reads. */
static void put(uint64_t *word, uint64_t value)
{
    if (!is_alone() && !gs_ledger_write(word, value)) {
        go_on_alone();
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Reads words of the ledger; zeros if this process counts alone. */
static void get(const uint64_t *from, uint64_t *out, size_t count)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (is_alone() || !gs_ledger_read(from, out, count)) {
        memset(out, 0, count * sizeof(*out));
        go_on_alone();
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Adds up a word of each member but this process's own, which is replaced by `mine`. */
static uint64_t add_up(const uint64_t *from, uint64_t mine)
{
    uint64_t sum = mine;
    gs_mutex_lock(&own_lock);
    get(from, copies, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++) {
        sum = i == own.number ? sum : sum_of(sum, copies[i]);
    }
    gs_mutex_unlock(&own_lock);
    return sum;
}

/* ---- members ----------------------------------------------------------------------- */

static uint64_t owner_of(int64_t pid, uint64_t start)
{
    return (uint64_t)pid << START_BITS | (start & START_MASK);
}

/* Its process is being removed by the kernel, which has not closed its devices yet. */
static bool is_exiting(uint64_t owner, uint64_t space)
{
    return owner != 0 && own.space != 0 && space == own.space &&
           gs_process_exiting((int64_t)(owner >> START_BITS), owner, START_MASK);
}

/* Clears what a member has; the lock of its byte is held. */
static void clear_member(struct gs_ledger *ledger, unsigned number)
{
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        put(&ledger->of[i].charged[number], 0);
        put(&ledger->of[i].tried[number], 0);
        put(&ledger->of[i].wanted[number], 0);
    }
    put(&ledger->gives[number], 0);
    put(&ledger->owner[number], 0);
}

/* Clears a member if its process has ended. */
static void remove_if_ended(struct gs_ledger *ledger, int fd, unsigned number)
{
    uint64_t owner = 0, space = 0;
    if (!gs_ledger_is_unlocked(fd, number) ||
        gs_ledger_lock(fd, number) != GS_LEDGER_LOCKED) {
        return;
    }
    if (gs_ledger_read(&ledger->owner[number], &owner, 1) &&
        gs_ledger_read(&ledger->space[number], &space, 1) && owner != 0 &&
        !is_exiting(owner, space)) {
        clear_member(ledger, number);
    }
    gs_ledger_unlock(fd, number);
}

static void log_unreachable(void)
{
    if (!__atomic_exchange_n(&unreachable, true, __ATOMIC_RELAXED)) {
        gs_log_line(
            GS_LOG_WARN,
            "GPUSHIM_MEM_GROUP=%.400s: %.400s: was removed or replaced, or can no longer "
            "be opened; memory of members that have ended stays charged",
            group_name, group_path);
    }
}

static void remove_all_ended(void)
{
    struct gs_ledger *ledger = joined_ledger();
    uint64_t owners[AT_ONCE];
    int before = gs_uncancelled_begin();
    int saved_errno = errno;
    int fd = is_alone() ? -1 : gs_ledger_reopen();
    if (fd >= 0) {
        for (unsigned i = 0; i < MEMBERS; i++) {
            if (i % AT_ONCE == 0) {
                get(&ledger->owner[i], owners, AT_ONCE);
            }
            if (owners[i % AT_ONCE] != 0 && i != own.number) {
                remove_if_ended(ledger, fd, i);
            }
        }
        close(fd);
    } else if (!is_alone() && errno != EMFILE && errno != ENFILE) {
        log_unreachable();
    }
    errno = saved_errno;
    gs_uncancelled_end(before);
}

/* Removes ended members, at most ten times a second. */
static void search(void)
{
    uint64_t at = __atomic_load_n(&next_search, __ATOMIC_RELAXED);
    uint64_t now = gs_now_coarse_ns();
    if (now >= at &&
        __atomic_compare_exchange_n(&next_search, &at, now + SEARCH_NS, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        remove_all_ended();
    }
}

/* ---- joining ----------------------------------------------------------------------- */

/* The number and start of this process, and its namespace if it has these in /proc. */
static uint64_t identify(void)
{
    struct stat space;
    int64_t pid = (int64_t)syscall(SYS_getpid);
    uint64_t start = 0;
    /* A /proc of another namespace has other processes by these numbers. */
    bool known = gs_process_self() == pid && gs_process_start(pid, &start) == GS_OK &&
                 stat("/proc/self/ns/pid", &space) == 0;
    own.space = known ? (uint64_t)space.st_ino : 0;
    return owner_of(pid, start);
}

/* Locks a free byte, and makes its member this process's. Returns why not, or NULL. */
static const char *claim(struct gs_ledger *ledger, int fd, uint64_t identity)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        uint64_t owner = 0, space = 0;
        enum gs_ledger_lock lock = gs_ledger_lock(fd, i);
        if (lock == GS_LEDGER_NO_LOCKS) {
            return "its file system has no locks";
        }
        if (lock == GS_LEDGER_TAKEN) {
            continue;
        }
        if (!gs_ledger_read(&ledger->owner[i], &owner, 1) ||
            !gs_ledger_read(&ledger->space[i], &space, 1) ||
            !gs_ledger_read(&ledger->requests[i], &own.requests, 1)) {
            return "was shortened while in use";
        }
        if (is_exiting(owner, space)) {
            gs_ledger_unlock(fd, i);
            continue;
        }
        clear_member(ledger, i);
        put(&ledger->space[i], own.space);
        put(&ledger->owner[i], identity);
        own.number = i;
        return NULL;
    }
    return "it is full";
}

/*
 * Returns why the process is no member; NULL: it is one. A child that another thread
 * forks while the descriptor is open would share the lock, so forks wait until it is
 * closed.
 */
static const char *join(void)
{
    int fd = -1;
    bool inside = gs_loader_enter_after_fork();
    const char *problem = gs_ledger_open(group_path, &fd);
    if (!problem) {
        problem = claim(gs_ledger_words(), fd, identify());
        close(fd);
    }
    if (inside) {
        gs_loader_leave();
    }
    if (problem) {
        gs_ledger_close();
        return problem;
    }
    __atomic_store_n(&words, gs_ledger_words(), __ATOMIC_RELEASE);
    remove_all_ended();
    return NULL;
}

/* The place of a device in the table, which the caller has locked; -1: it is full. */
static int find_place(struct gs_ledger *ledger, uint64_t key)
{
    uint64_t keys[GS_MAX_DEVICES];
    if (!gs_ledger_read(ledger->devices, keys, GS_MAX_DEVICES)) {
        return -1;
    }
    for (int i = 0; i < GS_MAX_DEVICES; i++) {
        if (keys[i] == 0) {
            put(&ledger->devices[i], key);
        }
        if (keys[i] == 0 || keys[i] == key) {
            return i;
        }
    }
    return -1;
}

/* Returns the place of a device, or -1. */
static int place_of(const char *bus)
{
    uint64_t key = gs_fnv1a(bus, strlen(bus)) | 1; /* 0 is no device */
    int place = -1, fd = gs_ledger_reopen();
    for (unsigned i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (gs_ledger_lock(fd, GS_LEDGER_DEVICES) == GS_LEDGER_LOCKED) {
            place = find_place(joined_ledger(), key);
            break;
        }
        gs_nap(LOCK_NAP_NS);
    }
    if (fd >= 0) {
        close(fd); /* and releases the lock */
    }
    return place;
}

static void log_alone(const char *problem)
{
    gs_log_line(GS_LOG_WARN,
                "GPUSHIM_MEM_GROUP=%.400s: %.400s: %s; GPUSHIM_MEM_LIMIT counts this "
                "process alone",
                group_name, group_path, problem);
}

int gs_group_join(const char *bus)
{
    int place = -1;
    if (!gs_group_wanted()) {
        return -1;
    }
    int before = gs_uncancelled_begin();
    int saved_errno = errno;
    gs_mutex_lock(&join_lock);
    if (!joined_ledger() && !failed) {
        const char *problem = join();
        failed = problem != NULL;
        if (problem) {
            log_alone(problem);
        }
    }
    if (joined_ledger()) {
        place = place_of(bus);
        if (place < 0 && !failed) {
            failed = true;
            log_alone("it has no room for another device");
        }
    }
    gs_mutex_unlock(&join_lock);
    errno = saved_errno;
    gs_uncancelled_end(before);
    return place;
}

/* ---- charges ----------------------------------------------------------------------- */

uint64_t gs_group_own(int place)
{
    return __atomic_load_n(&own.of[place].charged, __ATOMIC_SEQ_CST);
}

/* Changes this process's account of a device, modulo 2^64, and writes it. What an attempt
 * charges is written before the attempt is withdrawn. */
static void change_account(int place, uint64_t charged, uint64_t tried)
{
    struct gs_ledger_device *device = &joined_ledger()->of[place];
    struct account *account = &own.of[place];
    gs_mutex_lock(&own_lock);
    if (charged) {
        put(&device->charged[own.number],
            __atomic_add_fetch(&account->charged, charged, __ATOMIC_SEQ_CST));
    }
    if (tried) {
        put(&device->tried[own.number],
            __atomic_add_fetch(&account->tried, tried, __ATOMIC_SEQ_CST));
    }
    gs_mutex_unlock(&own_lock);
}

void gs_group_add(int place, uint64_t bytes)
{
    change_account(place, bytes, 0);
}

uint64_t gs_group_charged_by_others(int place)
{
    return add_up(joined_ledger()->of[place].charged, 0);
}

static uint64_t charged_by_all(int place)
{
    return add_up(joined_ledger()->of[place].charged, gs_group_own(place));
}

/* Whether all members' charges and attempts fit the limit. Reads the attempts first: a
 * successful attempt is charged before it is withdrawn. */
static bool fits_limit(int place, uint64_t limit)
{
    const struct account *account = &own.of[place];
    uint64_t tried = add_up(joined_ledger()->of[place].tried,
                            __atomic_load_n(&account->tried, __ATOMIC_SEQ_CST));
    return sum_of(tried, charged_by_all(place)) <= limit;
}

bool gs_group_charge(int place, uint64_t bytes, uint64_t limit)
{
    /* Members differ in it, so that of two one comes first. */
    uint64_t nap_ns = NAP_NS + NAP_NS * (own.number % 8);
    if (bytes > limit) {
        return false;
    }
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        change_account(place, 0, bytes);
        bool good = fits_limit(place, limit);
        change_account(place, good ? bytes : 0, -bytes);
        if (good) {
            return true;
        }
        if (attempt == 0) {
            remove_all_ended();
        } else if (charged_by_all(place) > limit - bytes) {
            return false; /* whatever becomes of other members' attempts */
        } else {
            gs_nap(nap_ns);
        }
    }
    return false;
}

uint64_t gs_group_charged(int place)
{
    search();
    return charged_by_all(place);
}

/* ---- idle memory ------------------------------------------------------------------- */

void gs_group_offer(bool gives)
{
    struct gs_ledger *ledger = joined_ledger();
    if (!ledger) {
        return;
    }
    gs_mutex_lock(&own_lock);
    if (own.gives != gives) {
        own.gives = gives;
        put(&ledger->gives[own.number], gives);
    }
    gs_mutex_unlock(&own_lock);
}

bool gs_group_offered(int place)
{
    bool offered = false;
    gs_mutex_lock(&own_lock);
    get(joined_ledger()->gives, copies, MEMBERS);
    get(joined_ledger()->of[place].charged, other_copies, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++) {
        offered = offered || (i != own.number && copies[i] && other_copies[i]);
    }
    gs_mutex_unlock(&own_lock);
    return offered;
}

/* Changes the wanted bytes, modulo 2^64. */
static void change_wanted(int place, uint64_t bytes, bool request)
{
    struct gs_ledger *ledger = joined_ledger();
    gs_mutex_lock(&own_lock);
    own.of[place].wanted += bytes;
    put(&ledger->of[place].wanted[own.number], own.of[place].wanted);
    if (request) {
        put(&ledger->requests[own.number], ++own.requests);
    }
    gs_mutex_unlock(&own_lock);
}

void gs_group_want(int place, uint64_t bytes)
{
    change_wanted(place, bytes, true);
}

void gs_group_want_no_longer(int place, uint64_t bytes)
{
    change_wanted(place, -bytes, false);
}

/* Whether the last request was a while ago: whoever wanted memory then has been stopped,
 * or killed. By this process's clock: clocks differ between time namespaces. */
static bool is_old(uint64_t requests)
{
    static uint64_t seen, seen_at; /* atomic */
    uint64_t now = gs_now_coarse_ns();
    if (__atomic_exchange_n(&seen, requests, __ATOMIC_SEQ_CST) != requests) {
        __atomic_store_n(&seen_at, now, __ATOMIC_SEQ_CST);
    }
    return now - __atomic_load_n(&seen_at, __ATOMIC_SEQ_CST) >= WANTED_NS;
}

uint64_t gs_group_wanted_by_others(int place)
{
    struct gs_ledger *ledger = joined_ledger();
    uint64_t bytes = add_up(ledger->of[place].wanted, 0);
    return bytes != 0 && !is_old(add_up(ledger->requests, 0)) ? bytes : 0;
}

uint64_t gs_group_requests(void)
{
    struct gs_ledger *ledger = joined_ledger();
    return ledger ? add_up(ledger->requests,
                           __atomic_load_n(&own.requests, __ATOMIC_RELAXED))
                  : 0;
}

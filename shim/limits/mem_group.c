/*
 * mem_group.c - the ledger of a group of processes.
 *
 * Each process writes what it has charged into a member of its own, and adds up the
 * members to see whether a charge fits. So there is no lock that a killed process could
 * leave locked, and no sum that it could leave wrong. A process that has ended is known
 * by its number and its start. Its member counts until another process joins, asks what
 * is free, or asks for the last memory. No process leaves at its exit, since the driver
 * frees its memory later; one leaves when it becomes another program (exec), which has
 * the same number and start.
 *
 * An attempt to charge is a word of its own. Two processes that ask for the last memory
 * at once may see each other's attempt: both withdraw, and try again after waits of
 * different lengths. What is charged, without attempts, refuses at once.
 *
 * Owns:   the mapping of the ledger, a member in it.
 * Lock:   join_lock while the group is joined; the ledger's words are atomic.
 * Design: docs/tuning.md
 */
#include "mem_group.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_locks.h"
#include "gs_uncancelled.h"
#include "gs_wait.h"
#include "link_open.h"
#include "log.h"
#include "output.h"
#include "process_start.h"

#define MAGIC   UINT64_C(0x3330707567736772) /* changes with the layout */
#define MEMBERS 512
#define NAME    64 /* bytes of a group's name */

/* An owner: the process's number and the low bits of its start, and that it counts. */
#define COUNTS     (UINT64_C(1) << 63)
#define START_BITS 39

/* Attempts to charge the last memory, and the wait between two. */
#define ATTEMPTS 5
#define NAP_NS   ((uint64_t)20000)
/* What a member wants counts for so long: it may have been killed while it waited. */
#define WANTED_NS ((uint64_t)1000000000)
/* The shortest interval between two searches for processes that have ended. */
#define SEARCH_NS ((uint64_t)100000000)

struct member {
    uint64_t owner;                   /* atomic; 0: nobody */
    uint64_t namespace;               /* of its process number; atomic */
    uint64_t charged[GS_MAX_DEVICES]; /* atomic; bytes, by place in `devices` */
    uint64_t tried[GS_MAX_DEVICES];   /* likewise: of attempts to charge */
    uint64_t wanted[GS_MAX_DEVICES];  /* likewise: of what other members keep idle ... */
    uint64_t wanted_at;               /* ... since this time; atomic */
    uint64_t gives;                   /* atomic: it looks at what others want */
};

struct ledger {
    uint64_t magic;                   /* atomic; 0: new */
    uint64_t members_end;             /* atomic; members from here on were never used */
    uint64_t requests;                /* atomic; counts what members have wanted */
    uint64_t devices[GS_MAX_DEVICES]; /* atomic; key of each device, 0: none */
    struct member members[MEMBERS];
};

static struct gs_mutex join_lock = GS_MUTEX(GS_RANK_LIMITS);
static char group_path[PATH_MAX];   /* "": no group; immutable after start */
static const char *group_name = ""; /* the user's word */
static bool failed;                 /* to join; under join_lock */
static struct ledger *ledger;       /* atomic; written under join_lock */
static struct member *own;          /* likewise */
static uint64_t identity;           /* of this process */
static uint64_t own_namespace;      /* 0: /proc does not tell */
static uint64_t next_search;        /* atomic; a time */

/* ---- start ------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789._-");
    return name[length] == '\0' && length <= NAME && name[0] != '.';
}

void gs_group_start(const char *name)
{
    int length = 0;
    group_path[0] = '\0';
    group_name = name;
    if (name[0] == '\0') {
        return;
    }
    if (strchr(name, '/')) {
        length = snprintf(group_path, sizeof(group_path), "%s", name);
    } else if (is_name(name)) {
        length = snprintf(group_path, sizeof(group_path), "/dev/shm/gpushim.%ld.%s.group",
                          (long)syscall(SYS_geteuid), name);
    }
    if (length <= 0 || length >= (int)sizeof(group_path)) {
        group_path[0] = '\0';
        gs_log_line(GS_LOG_WARN,
                    "GPUSHIM_MEM_GROUP=%.100s: not a path, nor a name of at most %d "
                    "letters, digits and . _ -; ignored",
                    name, NAME);
    }
}

void gs_group_reset(void)
{
    gs_mutex_init(&join_lock, GS_RANK_LIMITS);
    if (ledger) {
        (void)munmap(ledger, sizeof(*ledger));
    }
    ledger = NULL;
    own = NULL;
    failed = false;
    group_path[0] = '\0';
    next_search = 0;
}

bool gs_group_wanted(void)
{
    return group_path[0] != '\0';
}

/* ---- members ----------------------------------------------------------------------- */

static uint64_t owner_of(int64_t pid, uint64_t start)
{
    return (uint64_t)pid << START_BITS | (start & ((UINT64_C(1) << START_BITS) - 1));
}

/* Its process number means the same process to this one. */
static bool shares_namespace(const struct member *member)
{
    return own_namespace != 0 &&
           __atomic_load_n(&member->namespace, __ATOMIC_RELAXED) == own_namespace;
}

static bool has_ended(uint64_t owner)
{
    return (owner & ~COUNTS) != identity &&
           gs_process_ended((int64_t)((owner & ~COUNTS) >> START_BITS), owner,
                            (UINT64_C(1) << START_BITS) - 1);
}

/* Takes a member out if its process has ended. One of another namespace stays. */
static void remove_ended(struct member *member)
{
    uint64_t owner = __atomic_load_n(&member->owner, __ATOMIC_ACQUIRE);
    if ((owner & COUNTS) && shares_namespace(member) && has_ended(owner)) {
        (void)__atomic_compare_exchange_n(&member->owner, &owner, 0, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

static size_t members_end(void)
{
    uint64_t end = __atomic_load_n(&ledger->members_end, __ATOMIC_ACQUIRE);
    return end < MEMBERS ? (size_t)end : MEMBERS;
}

static void remove_all_ended(void)
{
    int before = gs_uncancelled_begin();
    int saved_errno = errno;
    for (size_t i = 0; i < members_end(); i++) {
        remove_ended(&ledger->members[i]);
    }
    errno = saved_errno;
    gs_uncancelled_end(before);
}

/* The program that this process was before `exec` has no memory any more. */
static void remove_former(struct member *member)
{
    uint64_t owner = __atomic_load_n(&member->owner, __ATOMIC_ACQUIRE);
    if ((owner & ~COUNTS) == identity && shares_namespace(member)) {
        (void)__atomic_compare_exchange_n(&member->owner, &owner, 0, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
}

/* Whether a member that does not count may get another owner, `unfinished`: also one
 * whose claim has not come to its end. One that has left for `exec` keeps its own. */
static bool is_free(const struct member *member, uint64_t owner, bool unfinished)
{
    return owner == 0 || (unfinished && !(owner & COUNTS) &&
                          (!shares_namespace(member) || has_ended(owner)));
}

static void raise_members_end(uint64_t least)
{
    uint64_t end = __atomic_load_n(&ledger->members_end, __ATOMIC_RELAXED);
    while (end < least &&
           !__atomic_compare_exchange_n(&ledger->members_end, &end, least, true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
}

/* Two that claim a member at once are told apart by the last step. */
static bool claim(struct member *member, bool unfinished)
{
    uint64_t owner = __atomic_load_n(&member->owner, __ATOMIC_ACQUIRE);
    if (!is_free(member, owner, unfinished) ||
        !__atomic_compare_exchange_n(&member->owner, &owner, identity, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return false;
    }
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        __atomic_store_n(&member->charged[i], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&member->tried[i], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&member->wanted[i], 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&member->gives, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&member->namespace, own_namespace, __ATOMIC_RELAXED);
    raise_members_end((uint64_t)(member - ledger->members) + 1);
    owner = identity;
    return __atomic_compare_exchange_n(&member->owner, &owner, identity | COUNTS, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* NULL: the group is full. */
static struct member *find_member(void)
{
    remove_all_ended();
    for (size_t i = 0; i < members_end(); i++) {
        remove_former(&ledger->members[i]);
    }
    for (size_t i = 0; i < 2 * MEMBERS; i++) {
        if (claim(&ledger->members[i % MEMBERS], i >= MEMBERS)) {
            return &ledger->members[i % MEMBERS];
        }
    }
    return NULL;
}

/* ---- the ledger -------------------------------------------------------------------- */

/* Makes a new file as long as a ledger, also one whose maker was killed at it. Returns 0
 * or an errno; EBADMSG: it is another's file, and stays as it is. */
static int prepare(int fd)
{
    struct stat found;
    uint64_t magic = 0;
    if (fstat(fd, &found) != 0) {
        return errno;
    }
    if (!S_ISREG(found.st_mode) || found.st_size > (off_t)sizeof(*ledger) ||
        found.st_uid != (uid_t)syscall(SYS_geteuid) ||
        pread(fd, &magic, sizeof(magic), 0) < 0 || (magic != 0 && magic != MAGIC)) {
        return EBADMSG;
    }
    return found.st_size == (off_t)sizeof(*ledger)
               ? 0
               : gs_output_map_extend(fd, 0, sizeof(*ledger));
}

/* Opens the file and maps it. Returns 0 or an errno. */
static int map_ledger(void)
{
    int fd = gs_link_open(group_path, O_RDWR | O_CREAT | O_NOFOLLOW, NULL);
    if (fd < 0) {
        return errno;
    }
    int error = prepare(fd);
    if (!error) {
        void *bytes =
            mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = bytes == MAP_FAILED ? errno : 0;
        __atomic_store_n(&ledger, error ? NULL : bytes, __ATOMIC_RELEASE);
    }
    close(fd);
    return error;
}

static void identify(void)
{
    struct stat space;
    int64_t pid = (int64_t)syscall(SYS_getpid);
    uint64_t start = 0;
    /* A /proc of another namespace has other processes by these numbers. */
    bool known = gs_process_self() == pid && gs_process_start(pid, &start) == GS_OK &&
                 stat("/proc/self/ns/pid", &space) == 0;
    identity = owner_of(pid, start);
    own_namespace = known ? (uint64_t)space.st_ino : 0;
}

/* Returns why the process is no member; NULL: it is one. */
static const char *join(void)
{
    int error = map_ledger();
    if (error) {
        return error == EBADMSG ? "not a ledger of this version"
                                : gs_output_error_text(error);
    }
    identify();
    __atomic_store_n(&ledger->magic, MAGIC, __ATOMIC_RELEASE);
    struct member *member = find_member();
    __atomic_store_n(&own, member, __ATOMIC_RELEASE);
    return member ? NULL : "it is full";
}

/* The place of a device; GS_MAX_DEVICES: there are too many. */
static unsigned place_of(const char *bus)
{
    uint64_t key = gs_fnv1a(bus, strlen(bus)) | 1; /* 0 is no device */
    for (unsigned i = 0; i < GS_MAX_DEVICES; i++) {
        uint64_t found = 0;
        if (__atomic_compare_exchange_n(&ledger->devices[i], &found, key, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            found == key) {
            return i;
        }
    }
    return GS_MAX_DEVICES;
}

uint64_t *gs_group_join(const char *bus)
{
    unsigned place = GS_MAX_DEVICES;
    if (!gs_group_wanted()) {
        return NULL;
    }
    int before = gs_uncancelled_begin();
    int saved_errno = errno;
    gs_mutex_lock(&join_lock);
    if (!own && !failed) {
        const char *problem = join();
        if (problem) {
            failed = true;
            gs_log_line(GS_LOG_WARN,
                        "GPUSHIM_MEM_GROUP=%.400s: %.400s: %s; GPUSHIM_MEM_LIMIT counts "
                        "this process alone",
                        group_name, group_path, problem);
        }
    }
    if (own) {
        place = place_of(bus);
    }
    gs_mutex_unlock(&join_lock);
    errno = saved_errno;
    gs_uncancelled_end(before);
    return place < GS_MAX_DEVICES ? &own->charged[place] : NULL;
}

/* ---- charges ----------------------------------------------------------------------- */

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* What the members have, all or but for one. */
static uint64_t add_up_but(const uint64_t *charge, const struct member *but)
{
    size_t place = (size_t)(charge - own->charged);
    uint64_t sum = 0;
    for (size_t i = 0; i < members_end(); i++) {
        const struct member *member = &ledger->members[i];
        if (member != but &&
            (__atomic_load_n(&member->owner, __ATOMIC_SEQ_CST) & COUNTS)) {
            sum = sum_of(sum, __atomic_load_n(&member->charged[place], __ATOMIC_SEQ_CST));
        }
    }
    return sum;
}

/* The attempts of all members. */
static uint64_t add_up_tried(size_t place)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < members_end(); i++) {
        const struct member *member = &ledger->members[i];
        if (__atomic_load_n(&member->owner, __ATOMIC_SEQ_CST) & COUNTS) {
            sum = sum_of(sum, __atomic_load_n(&member->tried[place], __ATOMIC_SEQ_CST));
        }
    }
    return sum;
}

static uint64_t add_up(const uint64_t *charge)
{
    return add_up_but(charge, NULL);
}

uint64_t gs_group_charged_by_others(const uint64_t *charge)
{
    return add_up_but(charge, own);
}

bool gs_group_charge(uint64_t *charge, uint64_t bytes, uint64_t limit)
{
    if (bytes > limit) {
        return false;
    }
    size_t place = (size_t)(charge - own->charged);
    /* Members differ in it, so that of two one comes first. */
    uint64_t nap_ns = NAP_NS + NAP_NS * ((uint64_t)(own - ledger->members) % 8);
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        (void)__atomic_add_fetch(&own->tried[place], bytes, __ATOMIC_SEQ_CST);
        /* An attempt that succeeds is charged before it is withdrawn, and read before. */
        uint64_t tried = add_up_tried(place);
        bool fits = sum_of(tried, add_up(charge)) <= limit;
        if (fits) {
            (void)__atomic_add_fetch(charge, bytes, __ATOMIC_SEQ_CST);
        }
        (void)__atomic_sub_fetch(&own->tried[place], bytes, __ATOMIC_SEQ_CST);
        if (fits) {
            return true;
        }
        if (attempt == 0) {
            remove_all_ended();
        } else if (add_up(charge) > limit - bytes) {
            return false; /* whatever comes of the attempts of others */
        } else {
            gs_nap(nap_ns);
        }
    }
    return false;
}

/* Not for a vfork child, which runs in its parent's memory. */
static void replace_own_owner(uint64_t owner, uint64_t next_owner)
{
    struct member *member = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
    if (member && identity >> START_BITS == (uint64_t)syscall(SYS_getpid)) {
        (void)__atomic_compare_exchange_n(&member->owner, &owner, next_owner, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    }
}

void gs_group_leave(void)
{
    replace_own_owner(identity | COUNTS, identity);
}

void gs_group_return(void)
{
    replace_own_owner(identity, identity | COUNTS);
}

uint64_t gs_group_charged(const uint64_t *charge)
{
    uint64_t at = __atomic_load_n(&next_search, __ATOMIC_RELAXED);
    uint64_t now = gs_now_coarse_ns();
    if (now >= at &&
        __atomic_compare_exchange_n(&next_search, &at, now + SEARCH_NS, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        remove_all_ended();
    }
    return add_up(charge);
}

/* ---- idle memory ------------------------------------------------------------------- */

void gs_group_offer(bool gives)
{
    struct member *member = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
    if (member) {
        __atomic_store_n(&member->gives, gives, __ATOMIC_RELAXED);
    }
}

bool gs_group_offered(const uint64_t *charge)
{
    size_t place = (size_t)(charge - own->charged);
    for (size_t i = 0; i < members_end(); i++) {
        const struct member *member = &ledger->members[i];
        if (member != own &&
            (__atomic_load_n(&member->owner, __ATOMIC_SEQ_CST) & COUNTS) &&
            __atomic_load_n(&member->gives, __ATOMIC_RELAXED) &&
            __atomic_load_n(&member->charged[place], __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return false;
}

void gs_group_want(const uint64_t *charge, uint64_t bytes)
{
    __atomic_store_n(&own->wanted_at, gs_now_coarse_ns(), __ATOMIC_SEQ_CST);
    (void)__atomic_add_fetch(&own->wanted[charge - own->charged], bytes,
                             __ATOMIC_SEQ_CST);
    (void)__atomic_add_fetch(&ledger->requests, 1, __ATOMIC_SEQ_CST);
}

void gs_group_want_no_longer(const uint64_t *charge, uint64_t bytes)
{
    (void)__atomic_sub_fetch(&own->wanted[charge - own->charged], bytes,
                             __ATOMIC_SEQ_CST);
}

uint64_t gs_group_wanted_by_others(const uint64_t *charge)
{
    size_t place = (size_t)(charge - own->charged);
    uint64_t sum = 0;
    for (size_t i = 0; i < members_end(); i++) {
        const struct member *member = &ledger->members[i];
        uint64_t bytes = __atomic_load_n(&member->wanted[place], __ATOMIC_SEQ_CST);
        if (member != own && bytes != 0 &&
            gs_now_coarse_ns() - __atomic_load_n(&member->wanted_at, __ATOMIC_SEQ_CST) <
                WANTED_NS) {
            sum = sum_of(sum, bytes);
        }
    }
    return sum;
}

uint64_t gs_group_requests(void)
{
    const struct ledger *joined = __atomic_load_n(&ledger, __ATOMIC_ACQUIRE);
    return joined ? __atomic_load_n(&joined->requests, __ATOMIC_RELAXED) : 0;
}

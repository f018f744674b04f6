/*
 * function_words.c - see function_words.h.
 *
 * /proc/PID/mem also writes to pages that the process has as read-only, as a debugger
 * does. /proc/PID/pagemap tells which pages are there: pages that were never touched hold
 * no words, and a process may have reserved terabytes, whose entries alone would take
 * minutes.
 */
#include "shim/tools/reader/function_words.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_compare.h"
#include "gs_page_scan.h"
#include "shim/tools/reader/living_thread.h"

#define REGIONS     64
#define CHUNK_BYTES ((size_t)1 << 20)
/* Below a stack pointer; and of a stack of the program's own, or below one on a stack
 * without a guard page. */
#define RED_ZONE   128
#define OWN_STACK  ((uint64_t)64 << 10)
#define LINE_BYTES 4608 /* a path of PATH_MAX, and what precedes it */

/* Read by one thread at a time, in order: large enough for one call of PAGEMAP_SCAN to cost
 * nothing, small enough for all threads to end together. */
#define SLICE_BYTES  ((uint64_t)256 << 20)
#define THREADS_MOST 8

/* Mappings in which words that are not aligned are counted: a program's tables are in its
 * data or in small blocks, and a look at each byte takes as long as all else. */
#define UNALIGNED_BYTES ((uint64_t)64 << 20)

/* Memory of /proc/PID/maps that may hold words. */
struct mapping {
    uint64_t begin, end;
    size_t slices;       /* of this mapping and those before it */
    bool is_first_stack; /* of the first thread */
    bool behind_guard;   /* directly above memory that cannot be accessed */
    bool is_shared;
};

/* A line of the file. */
struct line {
    uint64_t begin, end;
    char permissions[5];
    unsigned long inode;
    const char *name;
};

struct scan {
    const struct gs_function_words *words;
    bool replace;
    bool left;         /* counts what is left by a scan that replaces */
    int memory, pages; /* descriptors; pages -1: all are read */
    bool by_entries;   /* the kernel does not tell regions of pages; atomic */
    size_t page_bytes;
    struct mapping *mappings;
    size_t count, room;
    size_t next; /* slice; atomic. They are numbered through all mappings */
};

/* A thread that reads. */
struct reader {
    struct scan *scan;
    const struct mapping *mapping; /* that it reads */
    struct gs_function_words_result result;
    char *chunk;          /* CHUNK_BYTES */
    uint64_t *page_words; /* one for each page of a chunk */
    pthread_t thread;
};

static int compare(const void *left, const void *right)
{
    const struct gs_function_pair *a = left, *b = right;
    return GS_RISING(a->from, b->from);
}

void gs_function_words_sort(struct gs_function_words *words)
{
    size_t kept = 0;
    for (size_t i = 0; i < words->pair_count; i++) {
        bool again = false;
        for (size_t k = 0; k < kept && !again; k++) {
            again = words->pairs[k].from == words->pairs[i].from;
        }
        if (!again) {
            words->pairs[kept++] = words->pairs[i];
        }
    }
    words->pair_count = kept;
    qsort(words->pairs, kept, sizeof(*words->pairs), compare);
}

static const struct gs_function_pair *pair_of(const struct gs_function_words *words,
                                              uint64_t value)
{
    size_t low = 0, high = words->pair_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (words->pairs[middle].from < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < words->pair_count && words->pairs[low].from == value ? &words->pairs[low]
                                                                      : NULL;
}

static bool is_skipped(const struct gs_function_words *words, uint64_t address)
{
    for (size_t i = 0; i < words->skipped_count; i++) {
        if (address >= words->skipped[i].begin && address < words->skipped[i].end) {
            return true;
        }
    }
    return false;
}

/* Whether an address of the mapping is on a thread's stack: the first thread's; one that
 * the C library has made, above a guard page and below the thread's variables, also while
 * the thread is on another one, as Go's are; or near a stack pointer, where the program
 * has made the stack itself. */
static bool is_on_stack(const struct gs_function_words *words,
                        const struct mapping *mapping, uint64_t address)
{
    if (mapping->is_first_stack) {
        return true;
    }
    for (size_t i = 0; i < words->stack_count; i++) {
        const struct gs_function_stack *one = &words->stacks[i];
        bool on_it = one->stack >= mapping->begin && one->stack < mapping->end;
        bool made = one->thread > mapping->begin && one->thread < mapping->end &&
                    (mapping->behind_guard || (on_it && one->stack < one->thread));
        /* Without a guard other memory of the program's may be next to the stack. */
        uint64_t begin = !made                   ? one->stack - RED_ZONE
                         : mapping->behind_guard ? mapping->begin
                                                 : one->stack - OWN_STACK;
        uint64_t end = made ? one->thread - words->tls_bytes : one->stack + OWN_STACK;
        if ((made || on_it) && address >= begin && address < end) {
            return true;
        }
    }
    return false;
}

/* A value that may be a function's: counts the word, and replaces it. */
static void take_word(struct reader *reader, uint64_t address, uint64_t value)
{
    const struct scan *scan = reader->scan;
    const struct gs_function_pair *pair = pair_of(scan->words, value);
    bool is_aligned = address % sizeof(value) == 0;
    if (!pair || is_skipped(scan->words, address) ||
        (scan->left && is_aligned && !reader->mapping->is_shared) ||
        is_on_stack(scan->words, reader->mapping, address)) {
        return;
    }
    reader->result.found++;
    if (scan->replace && pwrite(scan->memory, &pair->to, sizeof(pair->to),
                                (off_t)address) == sizeof(pair->to)) {
        reader->result.replaced++;
    }
}

/* The words of `bytes` at `address`, which the reader's chunk has. */
static void look_at(struct reader *reader, uint64_t address, size_t bytes)
{
    const struct scan *scan = reader->scan;
    const struct gs_function_words *words = scan->words;
    const uint64_t first = words->pairs[0].from,
                   span = words->pairs[words->pair_count - 1].from - first;
    const size_t step =
        scan->left && reader->mapping->end - reader->mapping->begin <= UNALIGNED_BYTES
            ? 1
            : sizeof(uint64_t);
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += step) {
        uint64_t value;
        memcpy(&value, reader->chunk + at, sizeof(value));
        if (GS_UNLIKELY(value - first <= span)) {
            take_word(reader, address + at, value);
        }
    }
}

/* A page that cannot be read is left out; what is shared may be a device's as a whole. */
static void read_run(struct reader *reader, uint64_t address, size_t bytes)
{
    const size_t page_bytes = reader->scan->page_bytes;
    while (bytes > 0) {
        ssize_t length =
            pread(reader->scan->memory, reader->chunk, bytes, (off_t)address);
        size_t done = length > 0 ? (size_t)length : 0;
        look_at(reader, address, done);
        reader->result.bytes += done;
        if (done < bytes) {
            reader->result.unreadable += page_bytes;
            if (done == 0 && reader->mapping->is_shared) {
                return;
            }
            done = done / page_bytes * page_bytes + page_bytes;
        }
        address += done;
        bytes -= done;
    }
}

static bool is_there(uint64_t page)
{
    return (page & (GS_PAGE_PRESENT | GS_PAGE_SWAPPED)) != 0 &&
           !(page & GS_PAGE_IS_GUARD);
}

/* Reads the pages of the chunk that are present, in runs. */
static void read_chunk(struct reader *reader, uint64_t address, size_t bytes)
{
    const struct scan *scan = reader->scan;
    size_t count = bytes / scan->page_bytes;
    reader->result.asked += count;
    ssize_t wanted = (ssize_t)(count * sizeof(uint64_t));
    off_t at = (off_t)(address / scan->page_bytes * sizeof(uint64_t));
    if (scan->pages < 0 ||
        pread(scan->pages, reader->page_words, (size_t)wanted, at) != wanted) {
        read_run(reader, address, bytes);
        return;
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        bool there = is_there(reader->page_words[begin]);
        end = begin + 1;
        while (end < count && there == is_there(reader->page_words[end])) {
            end++;
        }
        if (there) {
            read_run(reader, address + begin * scan->page_bytes,
                     (end - begin) * scan->page_bytes);
        }
    }
}

/* Reads by regions of pages. Returns how far it came: `begin`, if the kernel does not tell
 * them. */
static uint64_t read_regions(struct reader *reader, uint64_t begin, uint64_t end)
{
    struct gs_page_region regions[REGIONS];
    struct gs_page_scan call = {.size = sizeof(call),
                                .begin = begin,
                                .end = end,
                                .regions = (uintptr_t)regions,
                                .region_count = REGIONS,
                                .any_of = GS_SCANNED_HERE | GS_SCANNED_SWAPPED,
                                .returned = GS_SCANNED_HERE};
    while (call.begin < call.end) {
        int count = ioctl(reader->scan->pages, GS_PAGE_SCAN, &call);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 || call.walk_end <= call.begin) {
            break;
        }
        for (int i = 0; i < count; i++) {
            for (uint64_t at = regions[i].begin; at < regions[i].end; at += CHUNK_BYTES) {
                uint64_t left = regions[i].end - at;
                read_run(reader, at, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
            }
        }
        call.begin = call.walk_end;
    }
    return call.begin;
}

static void read_slice(struct reader *reader, uint64_t begin, uint64_t end)
{
    struct scan *scan = reader->scan;
    uint64_t at = begin;
    if (scan->pages >= 0 && !__atomic_load_n(&scan->by_entries, __ATOMIC_RELAXED)) {
        at = read_regions(reader, begin, end);
        if (at == begin) {
            __atomic_store_n(&scan->by_entries, true, __ATOMIC_RELAXED);
        }
    }
    for (; at < end; at += CHUNK_BYTES) {
        uint64_t left = end - at;
        read_chunk(reader, at, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
    }
}

/* ---- threads ----------------------------------------------------------------------- */

/* The mapping of a slice; NULL: there are fewer slices. */
static const struct mapping *mapping_of(const struct scan *scan, size_t slice)
{
    size_t low = 0, high = scan->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scan->mappings[middle].slices <= slice) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < scan->count ? &scan->mappings[low] : NULL;
}

/* Takes the next slice. Returns false if none is left. */
static bool take_slice(struct reader *reader, uint64_t *begin, uint64_t *end)
{
    struct scan *scan = reader->scan;
    size_t slice = __atomic_fetch_add(&scan->next, 1, __ATOMIC_RELAXED);
    const struct mapping *mapping = mapping_of(scan, slice);
    if (!mapping) {
        return false;
    }
    size_t behind = mapping->slices - slice; /* this one, and the mapping's later ones */
    uint64_t bytes = mapping->end - mapping->begin;
    size_t count = (size_t)((bytes + SLICE_BYTES - 1) / SLICE_BYTES);
    reader->mapping = mapping;
    *begin = mapping->begin + (count - behind) * SLICE_BYTES;
    *end = behind > 1 ? *begin + SLICE_BYTES : mapping->end;
    return true;
}

static void *read_slices(void *self)
{
    struct reader *reader = self;
    uint64_t begin, end;
    while (take_slice(reader, &begin, &end)) {
        read_slice(reader, begin, end);
    }
    return NULL;
}

static bool make_reader(struct scan *scan, struct reader *out)
{
    *out = (struct reader){.scan = scan,
                           .chunk = malloc(CHUNK_BYTES),
                           .page_words =
                               malloc(CHUNK_BYTES / scan->page_bytes * sizeof(uint64_t))};
    return out->chunk && out->page_words;
}

/* How many threads read at once: all threads of the process wait for them. */
static unsigned threads_for(const struct scan *scan)
{
    cpu_set_t processors;
    size_t most = scan->count > 0 ? scan->mappings[scan->count - 1].slices : 1;
    int usable = sched_getaffinity(0, sizeof(processors), &processors) == 0
                     ? CPU_COUNT(&processors)
                     : 1;
    most = most < THREADS_MOST ? most : THREADS_MOST;
    return most < (unsigned)usable ? (unsigned)most : (unsigned)usable;
}

/* Starts readers 1 to `made` - 1, which no signal of this program interrupts. Returns how
 * many read, with the first. */
static unsigned start_readers(struct reader *readers, unsigned made)
{
    unsigned started = 1;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < made && pthread_create(&readers[started].thread, NULL, read_slices,
                                            &readers[started]) == 0) {
        started++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* Reads all mappings. Returns NULL, or why not. */
static const char *read_all(struct scan *scan, struct gs_function_words_result *out)
{
    struct reader readers[THREADS_MOST];
    unsigned wanted = threads_for(scan), made = 0, started = 0;
    while (made < wanted && make_reader(scan, &readers[made])) {
        made++;
    }
    if (made > 0) {
        started = start_readers(readers, made);
        (void)read_slices(&readers[0]);
    }
    for (unsigned i = 1; i < started; i++) {
        (void)pthread_join(readers[i].thread, NULL);
    }
    for (unsigned i = 0; i < made + (made < wanted); i++) {
        out->found += readers[i].result.found;
        out->replaced += readers[i].result.replaced;
        out->bytes += readers[i].result.bytes;
        out->unreadable += readers[i].result.unreadable;
        out->asked += readers[i].result.asked;
        free(readers[i].chunk);
        free(readers[i].page_words);
    }
    return made > 0 ? NULL : "no memory to read its memory";
}

/* ---- the list of mappings ---------------------------------------------------------- */

static bool read_line(char *line, struct line *out)
{
    char *at;
    out->begin = strtoull(line, &at, 16);
    if (*at++ != '-') {
        return false;
    }
    out->end = strtoull(at, &at, 16);
    if (*at++ != ' ' || strlen(at) < 4) {
        return false;
    }
    (void)snprintf(out->permissions, sizeof(out->permissions), "%.4s", at);
    at += 4;
    for (int field = 0; field < 2; field++) { /* the offset and the device */
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    out->inode = strtoul(at, &at, 10);
    at += strspn(at, " ");
    at[strcspn(at, "\n")] = '\0';
    out->name = at;
    return true;
}

/* Shared memory that is no file on a disk, and no device. */
static bool is_shared_memory(const struct line *line)
{
    static const char *const names[] = {"/memfd:", "/dev/zero", "/SYSV", "/dev/shm/",
                                        "[anon_shmem:"};
    bool found = false;
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        found |= strncmp(line->name, names[i], strlen(names[i])) == 0;
    }
    return found;
}

/* Private memory that may hold words: what the process can write, what it has made
 * read-only, and, of files, what the linker has once the slots were set. */
static bool is_wanted(const struct scan *scan, const struct line *line)
{
    bool written = line->permissions[0] == 'r' && line->permissions[1] == 'w';
    bool fixed = (scan->words->fixed || line->inode == 0) &&
                 strncmp(line->permissions, "r--", 3) == 0;
    if (line->permissions[3] == 's') {
        return scan->left && line->permissions[0] == 'r' && is_shared_memory(line);
    }
    if (scan->left && line->end - line->begin > UNALIGNED_BYTES) {
        return false;
    }
    return (written || fixed) && strcmp(line->name, "[vvar]") != 0 &&
           strcmp(line->name, "[vdso]") != 0;
}

static bool add_mapping(struct scan *scan, const struct mapping *mapping)
{
    if (scan->count == scan->room) {
        size_t room = scan->room ? 2 * scan->room : 256;
        void *grown = reallocarray(scan->mappings, room, sizeof(*mapping));
        if (!grown) {
            return false;
        }
        scan->mappings = grown;
        scan->room = room;
    }
    size_t before = scan->count > 0 ? scan->mappings[scan->count - 1].slices : 0;
    uint64_t bytes = mapping->end - mapping->begin;
    scan->mappings[scan->count] = *mapping;
    scan->mappings[scan->count++].slices =
        before + (size_t)((bytes + SLICE_BYTES - 1) / SLICE_BYTES);
    return true;
}

/* Lists what is to be read. Returns NULL, or why not. */
static const char *list_mappings(struct scan *scan, pid_t pid)
{
    static char text[LINE_BYTES]; /* large; one thread */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/maps", (long)gs_living_thread(pid));
    FILE *maps = fopen(path, "re");
    if (!maps) {
        return "its memory cannot be listed";
    }
    uint64_t guard_end = 0;
    bool listed = true;
    while (listed && fgets(text, sizeof(text), maps)) {
        struct line line;
        if (!read_line(text, &line)) {
            continue;
        }
        const struct mapping mapping = {
            .begin = line.begin,
            .end = line.end,
            .is_first_stack = strcmp(line.name, "[stack]") == 0,
            .behind_guard = line.begin == guard_end && line.inode == 0,
            .is_shared = line.permissions[3] == 's'};
        if (strcmp(line.permissions, "---p") == 0 && line.inode == 0) {
            guard_end = line.end;
        }
        listed = !is_wanted(scan, &line) || add_mapping(scan, &mapping);
    }
    (void)fclose(maps);
    return listed ? NULL : "no memory to list its memory";
}

static const char *run(struct scan *scan, pid_t pid, struct gs_function_words_result *out)
{
    char path[64];
    *out = (struct gs_function_words_result){0};
    if (scan->words->pair_count == 0) {
        return NULL;
    }
    scan->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    (void)snprintf(path, sizeof(path), "/proc/%ld/mem", (long)gs_living_thread(pid));
    scan->memory = open(path, (scan->replace ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (scan->memory < 0) {
        return errno == ENOENT ? "it has ended" : "its memory cannot be read";
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/pagemap", (long)gs_living_thread(pid));
    scan->pages = open(path, O_RDONLY | O_CLOEXEC);
    const char *problem = list_mappings(scan, pid);
    if (!problem) {
        problem = read_all(scan, out);
    }
    (void)close(scan->memory);
    if (scan->pages >= 0) {
        (void)close(scan->pages);
    }
    free(scan->mappings);
    return problem;
}

const char *gs_function_words_scan(pid_t pid, const struct gs_function_words *words,
                                   bool replace, struct gs_function_words_result *out)
{
    struct scan scan = {.words = words, .replace = replace};
    return run(&scan, pid, out);
}

const char *gs_function_words_left(pid_t pid, const struct gs_function_words *words,
                                   struct gs_function_words_result *out)
{
    struct scan scan = {.words = words, .left = true};
    return run(&scan, pid, out);
}

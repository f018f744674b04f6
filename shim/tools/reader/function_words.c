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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gs_page_scan.h"

#define REGIONS     64
#define CHUNK_BYTES ((size_t)1 << 20)
/* Below a stack pointer; and of a stack of the program's own, or below one on a stack
 * without a guard page. */
#define RED_ZONE   128
#define OWN_STACK  ((uint64_t)64 << 10)
#define LINE_BYTES 4608 /* a path of PATH_MAX, and what precedes it */

/* A line of /proc/PID/maps. */
struct mapping {
    uint64_t begin, end;
    char permissions[5];
    unsigned long inode;
    const char *name;
    bool behind_guard; /* directly above memory that cannot be accessed */
};

struct scan {
    const struct gs_function_words *words;
    const struct mapping *mapping; /* that is read */
    struct gs_function_words_result *result;
    bool replace;
    int memory, pages; /* descriptors; pages -1: all are read */
    bool by_entries;   /* the kernel does not tell regions of pages */
    size_t page_bytes;
    char *chunk;          /* CHUNK_BYTES */
    uint64_t *page_words; /* one for each page of a chunk */
};

static int compare(const void *left, const void *right)
{
    const struct gs_function_pair *a = left, *b = right;
    return a->from < b->from ? -1 : a->from > b->from;
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
    if (strcmp(mapping->name, "[stack]") == 0) {
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

/* The words of `bytes` at `address`, which `scan->chunk` has. */
static void look_at(struct scan *scan, uint64_t address, size_t bytes)
{
    const struct gs_function_words *words = scan->words;
    const uint64_t first = words->pairs[0].from,
                   span = words->pairs[words->pair_count - 1].from - first;
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t value;
        memcpy(&value, scan->chunk + at, sizeof(value));
        if (GS_LIKELY(value - first > span)) {
            continue;
        }
        const struct gs_function_pair *pair = pair_of(words, value);
        if (!pair || is_skipped(words, address + at) ||
            is_on_stack(words, scan->mapping, address + at)) {
            continue;
        }
        scan->result->found++;
        if (scan->replace && pwrite(scan->memory, &pair->to, sizeof(pair->to),
                                    (off_t)(address + at)) == sizeof(pair->to)) {
            scan->result->replaced++;
        }
    }
}

/* A page that cannot be read is left out. */
static void read_run(struct scan *scan, uint64_t address, size_t bytes)
{
    while (bytes > 0) {
        ssize_t length = pread(scan->memory, scan->chunk, bytes, (off_t)address);
        size_t done = length > 0 ? (size_t)length : 0;
        look_at(scan, address, done);
        scan->result->bytes += done;
        if (done < bytes) {
            scan->result->unreadable += scan->page_bytes;
            done = done / scan->page_bytes * scan->page_bytes + scan->page_bytes;
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
static void read_chunk(struct scan *scan, uint64_t address, size_t bytes)
{
    size_t count = bytes / scan->page_bytes;
    ssize_t wanted = (ssize_t)(count * sizeof(uint64_t));
    off_t at = (off_t)(address / scan->page_bytes * sizeof(uint64_t));
    if (scan->pages < 0 ||
        pread(scan->pages, scan->page_words, (size_t)wanted, at) != wanted) {
        read_run(scan, address, bytes);
        return;
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        bool there = is_there(scan->page_words[begin]);
        end = begin + 1;
        while (end < count && there == is_there(scan->page_words[end])) {
            end++;
        }
        if (there) {
            read_run(scan, address + begin * scan->page_bytes,
                     (end - begin) * scan->page_bytes);
        }
    }
}

/* Reads a mapping by its regions of pages. Returns how far it came: 0, if the kernel does
 * not tell them. */
static uint64_t read_regions(struct scan *scan, const struct mapping *mapping)
{
    struct gs_page_region regions[REGIONS];
    struct gs_page_scan call = {.size = sizeof(call),
                                .begin = mapping->begin,
                                .end = mapping->end,
                                .regions = (uintptr_t)regions,
                                .region_count = REGIONS,
                                .any_of = GS_SCANNED_HERE | GS_SCANNED_SWAPPED,
                                .returned = GS_SCANNED_HERE};
    uint64_t done = 0;
    while (call.begin < call.end) {
        int count = ioctl(scan->pages, GS_PAGE_SCAN, &call);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 || call.walk_end <= call.begin) {
            break;
        }
        for (int i = 0; i < count; i++) {
            for (uint64_t at = regions[i].begin; at < regions[i].end; at += CHUNK_BYTES) {
                uint64_t left = regions[i].end - at;
                read_run(scan, at, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
            }
        }
        call.begin = done = call.walk_end;
    }
    return done;
}

static void read_whole(struct scan *scan, const struct mapping *mapping)
{
    uint64_t at = scan->pages >= 0 && !scan->by_entries ? read_regions(scan, mapping) : 0;
    if (at == 0) {
        scan->by_entries = true;
        at = mapping->begin;
    }
    for (; at < mapping->end; at += CHUNK_BYTES) {
        uint64_t left = mapping->end - at;
        read_chunk(scan, at, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
    }
}

static bool read_mapping(char *line, struct mapping *out)
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
    out->behind_guard = false;
    at += strspn(at, " ");
    at[strcspn(at, "\n")] = '\0';
    out->name = at;
    return true;
}

/* Private memory that may hold words: what the process can write, what it has made
 * read-only, and, of files, what the linker has once the slots were set. */
static bool is_wanted(const struct scan *scan, const struct mapping *mapping)
{
    bool written = mapping->permissions[0] == 'r' && mapping->permissions[1] == 'w';
    bool fixed = (scan->words->fixed || mapping->inode == 0) &&
                 strncmp(mapping->permissions, "r--", 3) == 0;
    return mapping->permissions[3] == 'p' && (written || fixed) &&
           strcmp(mapping->name, "[vvar]") != 0 && strcmp(mapping->name, "[vdso]") != 0;
}

static const char *scan_all(struct scan *scan, pid_t pid)
{
    static char line[LINE_BYTES]; /* large; one thread */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
    FILE *maps = fopen(path, "re");
    if (!maps) {
        return "its memory cannot be listed";
    }
    uint64_t guard_end = 0;
    while (fgets(line, sizeof(line), maps)) {
        struct mapping mapping;
        if (!read_mapping(line, &mapping)) {
            continue;
        }
        mapping.behind_guard = mapping.begin == guard_end && mapping.inode == 0;
        if (strcmp(mapping.permissions, "---p") == 0 && mapping.inode == 0) {
            guard_end = mapping.end;
        }
        if (!is_wanted(scan, &mapping)) {
            continue;
        }
        scan->mapping = &mapping;
        read_whole(scan, &mapping);
    }
    scan->mapping = NULL;
    (void)fclose(maps);
    return NULL;
}

const char *gs_function_words_scan(pid_t pid, const struct gs_function_words *words,
                                   bool replace, struct gs_function_words_result *out)
{
    struct scan scan = {.words = words,
                        .result = out,
                        .replace = replace,
                        .page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
    char path[64];
    const char *problem = NULL;
    *out = (struct gs_function_words_result){0};
    if (words->pair_count == 0) {
        return NULL;
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/mem", (long)pid);
    scan.memory = open(path, (replace ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/%ld/pagemap", (long)pid);
    scan.pages = open(path, O_RDONLY | O_CLOEXEC);
    scan.chunk = malloc(CHUNK_BYTES);
    scan.page_words = malloc(CHUNK_BYTES / scan.page_bytes * sizeof(uint64_t));
    if (scan.memory < 0) {
        problem = errno == ENOENT ? "it has ended" : "its memory cannot be read";
    } else if (!scan.chunk || !scan.page_words) {
        problem = "no memory to read its memory";
    } else {
        problem = scan_all(&scan, pid);
    }
    if (scan.memory >= 0) {
        (void)close(scan.memory);
    }
    if (scan.pages >= 0) {
        (void)close(scan.pages);
    }
    free(scan.chunk);
    free(scan.page_words);
    return problem;
}

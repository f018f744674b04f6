/*
 * leak_scan.c - the whole scan: collects the targets and reads the memory page by page.
 *
 * Of private mappings the scan reads only pages that the process has written, of all
 * mappings only present pages (pagemap): reading would create the others. It maps all of
 * its own memory and skips it. It also skips the tracker's tables, which hold the
 * addresses.
 *
 * Owns: a struct gs_scan while it runs.   Lock: none.   Design: docs/tracker.md
 */
#include "tracker/scan/leak_scan_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gs_clock.h"
#include "gs_page_scan.h"
#include "tracker/groups.h"
#include "tracker/stacks/alt_stack.h"
#include "tracker/stacks/thread_stack.h"
#include "tracker/tracker_internal.h"

#define BATCH_BYTES  (256 * (size_t)GS_KIB) /* fits into a core's own cache */
#define BATCH_PIECES 64u
#define PAGE_ENTRIES 4096u
#define LINE_BYTES   (16 * (size_t)GS_KIB)
#define OTHER_RANGES 32768u /* in addition to the targets: modules, tables */
/* Frames of the report are at most this far below the frames of this file. */
#define REPORT_STACK_BYTES (256 * (uintptr_t)GS_KIB)
/* The same for a report that runs on another stack: the thread's own stack is then
 * small. */
#define ROOMY_REPORT_BYTES (8 * (uintptr_t)GS_KIB)

#define INT_HEADER_BYTES (GS_SCAN_INT_HEADER * sizeof(uint64_t))

/* All that a scan needs, in one mapping. */
struct work {
    uint64_t batch[BATCH_BYTES / 8];
    union {
        uint64_t pages[PAGE_ENTRIES];
        struct gs_page_region regions[PAGE_ENTRIES / 3];
    };
    char lines[LINE_BYTES];
    struct iovec pieces[BATCH_PIECES];
    struct gs_scan_filter filter;
    struct gs_scan_stacks stacks;
    struct gs_scan_range roots[OTHER_RANGES];
    struct gs_scan_range skips[]; /* one for each target, then OTHER_RANGES */
};

struct run {
    struct gs_scan *scan;
    struct work *work;
    struct gs_scan_ranges skips, roots;
    size_t piece_count, batch_bytes;
    bool batch_root;
    struct gs_scan_range last; /* piece added */
    uintptr_t page_bytes;
    int pagemap;
    bool by_entries;
    uint64_t deadline_ns; /* 0: none */
    const char *why_not;
};

static_assert(offsetof(struct gs_scan_target, addr) == 0 &&
                  sizeof(struct gs_scan_target) <= GS_SCAN_ITEM_MAX &&
                  offsetof(struct gs_scan_range, begin) == 0 &&
                  sizeof(uintptr_t) == sizeof(uint64_t),
              "gs_scan_sort sorts them");

static const char unreadable_text[] = "/proc/self/pagemap cannot be read";
static const char late_text[] = "it would have taken too long";

static bool is_late(const struct run *run)
{
    return run->deadline_ns != 0 && gs_now_ns() > run->deadline_ns;
}

/* ---- reading ---------------------------------------------------------------------- */

/* Returns the bytes read, from the front; 0: none. */
static size_t read_pieces(struct run *run, const struct iovec *pieces, size_t count,
                          size_t bytes)
{
    struct iovec into = {.iov_base = run->work->batch, .iov_len = bytes};
    ssize_t got = process_vm_readv(getpid(), &into, 1, pieces, count, 0);

    if (got < 0 && (errno == ENOSYS || errno == EPERM)) {
        run->why_not = "the kernel does not allow process_vm_readv here";
    }
    return got < 0 ? 0 : (size_t)got;
}

static void scan_batch(struct run *run, size_t bytes)
{
    run->scan->scanned_bytes += bytes;
    gs_scan_words(run->scan, &run->work->filter, run->work->batch, bytes / 8,
                  run->batch_root);
    if (run->scan->python_ints) {
        gs_scan_ints(run->scan, &run->work->filter, run->work->batch, bytes / 8);
    }
}

/* A page of the batch is unreadable: reads the pages one by one, and skips that page. */
static void read_singly(struct run *run)
{
    for (size_t i = 0; i < run->piece_count; i++) {
        uintptr_t begin = (uintptr_t)run->work->pieces[i].iov_base;
        uintptr_t end = begin + run->work->pieces[i].iov_len;
        while (begin < end && !run->why_not) {
            uintptr_t next = (begin & ~(run->page_bytes - 1)) + run->page_bytes;
            struct iovec piece = {.iov_base = (void *)begin,
                                  .iov_len = (next < end ? next : end) - begin};
            size_t got = read_pieces(run, &piece, 1, piece.iov_len);
            scan_batch(run, got);
            begin = next;
        }
    }
}

static void flush(struct run *run)
{
    if (run->piece_count == 0) {
        return;
    }
    size_t got = read_pieces(run, run->work->pieces, run->piece_count, run->batch_bytes);
    if (got == run->batch_bytes) {
        scan_batch(run, got);
    } else {
        read_singly(run);
    }
    run->piece_count = run->batch_bytes = 0;
    if (is_late(run)) {
        run->why_not = late_text;
    }
}

/* Returns where to begin a piece at `begin`: the header of an int there may be at the end
 * of the last piece, whose batch may be gone. */
static uintptr_t with_header(const struct run *run, uintptr_t begin)
{
    bool follows = run->scan->python_ints && begin == run->last.end &&
                   begin - run->last.begin >= INT_HEADER_BYTES;

    return follows ? begin - INT_HEADER_BYTES : begin;
}

/* Adds present pages [begin, end), which are all root or all not. */
static void add_piece(struct run *run, uintptr_t begin, uintptr_t end, bool root)
{
    if (root != run->batch_root) {
        flush(run);
        run->last.end = 0;
    }
    run->batch_root = root;
    begin = gs_round_up(begin, sizeof(uint64_t));
    end &= ~(uintptr_t)(sizeof(uint64_t) - 1);
    while (begin < end && !run->why_not) {
        uintptr_t from = with_header(run, begin);
        size_t room = BATCH_BYTES - run->batch_bytes;
        size_t bytes = end - from < room ? end - from : room;
        run->work->pieces[run->piece_count++] =
            (struct iovec){.iov_base = (void *)from, .iov_len = bytes};
        run->batch_bytes += bytes;
        run->last = (struct gs_scan_range){.begin = from, .end = from + bytes};
        begin = from + bytes;
        if (run->batch_bytes == BATCH_BYTES || run->piece_count == BATCH_PIECES) {
            flush(run);
        }
    }
}

/* Adds the range without its skipped parts, and its roots separately. */
static void add_unskipped(struct run *run, uintptr_t begin, uintptr_t end, bool stack)
{
    while (begin < end && !run->why_not) {
        const struct gs_scan_range *skip = gs_scan_range_from(&run->skips, begin);
        const struct gs_scan_range *root = gs_scan_range_from(&run->roots, begin);
        uintptr_t until = end;

        if (skip && skip->begin <= begin) {
            begin = skip->end;
            continue;
        }
        if (skip && skip->begin < until) {
            until = skip->begin;
        }
        if (root && root->begin > begin && root->begin < until) {
            until = root->begin;
        }
        if (root && root->begin <= begin && root->end < until) {
            until = root->end;
        }
        add_piece(run, begin, until, stack || (root && root->begin <= begin));
        begin = until;
    }
}

/* ---- pages ------------------------------------------------------------------------ */

static bool is_wanted(uint64_t page, bool shared)
{
    if (shared) {
        return (page & GS_PAGE_PRESENT) != 0;
    }
    return (page & (GS_PAGE_PRESENT | GS_PAGE_SWAPPED)) != 0 &&
           (page & GS_PAGE_OF_FILE) == 0;
}

/* Scans some pages of an area, from its page `first` on. False: pagemap has no answer for
 * them. */
static bool scan_pages(struct run *run, const struct gs_scan_area *area, uintptr_t first,
                       size_t count)
{
    size_t wanted = count * sizeof(uint64_t);
    ssize_t got = pread(run->pagemap, run->work->pages, wanted,
                        (off_t)(first / run->page_bytes * sizeof(uint64_t)));

    if (got <= 0 || got % (ssize_t)sizeof(uint64_t) != 0) {
        return false;
    }
    count = (size_t)got / sizeof(uint64_t);
    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        if (!is_wanted(run->work->pages[i], area->shared)) {
            continue;
        }
        while (end < count && is_wanted(run->work->pages[end], area->shared)) {
            end++;
        }
        uintptr_t begin = first + i * run->page_bytes;
        uintptr_t until = first + end * run->page_bytes;
        add_unskipped(run, begin > area->begin ? begin : area->begin,
                      until < area->end ? until : area->end, area->root);
    }
    return true;
}

static void add_region(struct run *run, const struct gs_scan_area *area,
                       const struct gs_page_region *region)
{
    uintptr_t begin = region->begin > area->begin ? region->begin : area->begin;
    uintptr_t until = region->end < area->end ? region->end : area->end;
    bool here = (region->categories & GS_SCANNED_HERE) != 0;

    if (area->shared ? here : (region->categories & GS_SCANNED_FILE) == 0) {
        add_unskipped(run, begin, until, area->root);
    }
}

/* Scans a large area by its regions of pages. False: the kernel cannot tell them, and
 * nothing was scanned. */
static bool scan_regions(struct run *run, const struct gs_scan_area *area)
{
    struct gs_page_scan call = {
        .size = sizeof(call),
        .begin = area->begin & ~(run->page_bytes - 1),
        .end = gs_round_up(area->end, run->page_bytes),
        .regions = (uintptr_t)run->work->regions,
        .region_count = GS_ARRAY_LEN(run->work->regions),
        .any_of = GS_SCANNED_HERE | GS_SCANNED_SWAPPED,
        .returned = GS_SCANNED_HERE | GS_SCANNED_SWAPPED | GS_SCANNED_FILE,
    };
    bool began = false;

    while (call.begin < call.end && !run->why_not) {
        /* By syscall: one more imported function costs each start 600 instructions. */
        int count = (int)syscall(SYS_ioctl, run->pagemap, GS_PAGE_SCAN, &call);

        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 && !began) {
            return false;
        }
        if (count < 0 || call.walk_end <= call.begin) {
            run->why_not = unreadable_text; /* half an area would make leaks lost */
            break;
        }
        began = true;
        for (int i = 0; i < count; i++) {
            add_region(run, area, &run->work->regions[i]);
        }
        call.begin = call.walk_end;
        if (is_late(run)) {
            run->why_not = late_text;
        }
    }
    return true;
}

static void scan_area(struct run *run, const struct gs_scan_area *area)
{
    uintptr_t first = area->begin & ~(run->page_bytes - 1);

    if (area->end - first > PAGE_ENTRIES * run->page_bytes && !run->by_entries &&
        scan_regions(run, area)) {
        return;
    }
    while (first < area->end && !run->why_not) {
        size_t count = (area->end - first + run->page_bytes - 1) / run->page_bytes;
        if (count > PAGE_ENTRIES) {
            count = PAGE_ENTRIES;
        }
        if (!scan_pages(run, area, first, count)) {
            run->why_not = unreadable_text;
        }
        first += count * run->page_bytes;
        if (is_late(run)) {
            run->why_not = late_text;
        }
    }
}

/* Scans the areas of /proc/self/maps, which is read line by line. */
static void scan_areas(struct run *run, int maps)
{
    struct gs_scan_lines lines = {.stacks = &run->work->stacks};
    char *text = run->work->lines;
    size_t used = 0;
    ssize_t got;

    while ((got = read(maps, text + used, LINE_BYTES - 1 - used)) > 0 && !run->why_not) {
        char *line = text, *newline;
        used += (size_t)got;
        text[used] = '\0';
        while ((newline = strchr(line, '\n')) != NULL && !run->why_not) {
            struct gs_scan_area area;
            *newline = '\0';
            if (gs_scan_take_line(&lines, line, &area)) {
                scan_area(run, &area);
            }
            line = newline + 1;
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
    }
    flush(run);
    if (got < 0) {
        run->why_not = "/proc/self/maps cannot be read";
    }
}

/* ---- targets and skipped memory --------------------------------------------------- */

struct collect {
    struct gs_scan *scan;
    size_t capacity;
    const struct gs_scan_config *config;
};

/* Keys above all addresses are handles; no pointer equals a handle. */
static bool is_address(const struct gs_allocation *allocation)
{
    return allocation->addr >> 56 == 0 && allocation->addr != 0;
}

static bool count_target(void *arg, const struct gs_allocation *allocation)
{
    *(size_t *)arg += is_address(allocation);
    return true;
}

static bool add_target(void *arg, const struct gs_allocation *allocation)
{
    struct collect *collect = arg;
    const struct gs_scan_config *config = collect->config;
    struct gs_scan *scan = collect->scan;

    if (!is_address(allocation)) {
        return true;
    }
    scan->targets[scan->count++] = (struct gs_scan_target){
        .addr = allocation->addr,
        .bytes = allocation->bytes,
        .driver_knows = config->driver_knows != NULL &&
                        config->driver_knows(config->self, allocation->addr)};
    return scan->count < collect->capacity;
}

static bool collect_targets(struct gs_tracker *tracker,
                            const struct gs_scan_config *config, struct gs_scan *scan)
{
    struct collect collect = {.scan = scan, .config = config};

    gs_records_visit(tracker, count_target, &collect.capacity);
    collect.capacity += 64; /* other threads may allocate at any time */
    scan->mapped_bytes = collect.capacity * sizeof(*scan->targets);
    scan->targets = gs_host_map(scan->mapped_bytes);
    if (!scan->targets) {
        return false;
    }
    gs_records_visit(tracker, add_target, &collect);
    return true;
}

static void skip_range(void *arg, uintptr_t begin, size_t bytes)
{
    gs_scan_range_add(arg, begin, begin + bytes);
}

/* Device memory that the host can read is the program's data; an address in it is no
 * reference. Pinned memory is host memory like any other. */
static bool skip_allocation(void *arg, const struct gs_allocation *allocation)
{
    if (is_address(allocation) && allocation->kind != GS_MEMORY_PINNED) {
        skip_range(arg, allocation->addr, allocation->bytes);
    }
    return true;
}

/* Skips the tables that hold addresses. */
static void skip_tracker(struct gs_tracker *tracker, struct gs_scan_ranges *skips)
{
    skip_range(skips, (uintptr_t)tracker, sizeof(*tracker));
    for (uint32_t i = 0; i < GS_CHUNKS; i++) {
        uintptr_t chunk =
            (uintptr_t)__atomic_load_n(&tracker->chunks[i], __ATOMIC_ACQUIRE);
        if (chunk == 0) {
            break;
        }
        skip_range(skips, chunk, sizeof(struct gs_record) << GS_CHUNK_SHIFT);
    }
    uintptr_t history = (uintptr_t)__atomic_load_n(&tracker->history, __ATOMIC_ACQUIRE);
    if (history != 0) {
        skip_range(skips, history,
                   tracker->config.free_history * sizeof(struct gs_history_entry));
    }
}

/* Skips the frames of the report, and the values that its earlier frames left below
 * them. */
static void skip_report(const struct gs_scan_config *config, struct gs_scan_ranges *skips)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t left = gs_alt_stack_record(here), high;
    uintptr_t below = left ? ROOMY_REPORT_BYTES : REPORT_STACK_BYTES;

    here = left ? left : here;
    if (config->stack_from > here && here > below) {
        if (gs_thread_stack_known(here, &high) && here - gs_own_stack.low < below) {
            below = here - gs_own_stack.low;
        }
        gs_scan_range_add(skips, here - below, config->stack_from);
    }
    gs_alt_stack_visit(skip_range, skips);
}

/* Collects the ranges that the scan must skip, because the library's own addresses are
 * there, and the roots: the data of the program's modules. */
static void find_ranges(struct run *run, struct gs_tracker *tracker,
                        const struct gs_scan_config *config, size_t work_bytes)
{
    skip_range(&run->skips, (uintptr_t)run->work, work_bytes);
    skip_range(&run->skips, (uintptr_t)run->scan->targets, run->scan->mapped_bytes);
    skip_tracker(tracker, &run->skips);
    gs_records_visit(tracker, skip_allocation, &run->skips);
    skip_report(config, &run->skips);
    if (config->own_memory &&
        !config->own_memory(config->self, skip_range, &run->skips)) {
        run->why_not = "too much memory of the library's own";
    }
    if (!gs_scan_add_modules(config->own_code, &run->skips, &run->roots)) {
        run->why_not = "the process is about to fork";
    }
    if (run->skips.overflow || run->roots.overflow) {
        run->why_not = "too many ranges";
    }
    gs_scan_ranges_merge(&run->skips);
    gs_scan_ranges_merge(&run->roots);
}

/* ---- the whole scan --------------------------------------------------------------- */

/* Scans the process's memory with the buffers of run->work. A failure sets run->why_not.
 */
static void scan_with(struct gs_tracker *tracker, const struct gs_scan_config *config,
                      struct run *run, size_t skip_capacity, size_t work_bytes)
{
    int maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);

    run->pagemap = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
    run->page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    run->skips =
        (struct gs_scan_ranges){.items = run->work->skips, .capacity = skip_capacity};
    run->roots =
        (struct gs_scan_ranges){.items = run->work->roots, .capacity = OTHER_RANGES};
    if (maps < 0 || run->pagemap < 0) {
        run->why_not = "/proc/self/maps or pagemap cannot be read";
    }
    gs_scan_prepare(run->scan, &run->work->filter);
    find_ranges(run, tracker, config, work_bytes);
    gs_scan_find_stacks(&run->work->stacks, config->stack_from);
    if (!run->why_not) {
        scan_areas(run, maps);
    }
    if (maps >= 0) {
        close(maps);
    }
    if (run->pagemap >= 0) {
        close(run->pagemap);
    }
}

void gs_scan_run(struct gs_tracker *tracker, const struct gs_scan_config *config,
                 struct gs_scan *scan)
{
    int saved = errno;
    struct run run = {.scan = scan, .pagemap = -1, .by_entries = config->by_entries};
    uint64_t start_ns = gs_now_ns();

    scan->python_ints = config->python_ints;
    if (config->limit_ms != 0) {
        run.deadline_ns = start_ns + config->limit_ms * UINT64_C(1000000);
    }
    if (collect_targets(tracker, config, scan)) {
        size_t skips = scan->count + 64 + OTHER_RANGES;
        size_t bytes = sizeof(struct work) + skips * sizeof(struct gs_scan_range);
        run.work = scan->count > 0 ? gs_host_map(bytes) : NULL;
        if (run.work) {
            scan_with(tracker, config, &run, skips, bytes);
            gs_host_unmap(run.work, bytes);
        } else if (scan->count > 0) {
            run.why_not = gs_status_text(GS_ERR_HOST_NOMEM);
        }
    } else {
        run.why_not = gs_status_text(GS_ERR_HOST_NOMEM);
    }
    scan->python_unread = config->python_unread;
    scan->took_ns = gs_now_ns() - start_ns;
    scan->why_not = run.why_not;
    if (run.why_not) { /* half a scan proves nothing */
        gs_host_unmap(scan->targets, scan->mapped_bytes);
        scan->targets = NULL;
        scan->count = 0;
    }
    errno = saved;
}

void gs_scan_free(struct gs_scan *scan)
{
    gs_host_unmap(scan->targets, scan->mapped_bytes);
    scan->targets = NULL;
    scan->count = 0;
}

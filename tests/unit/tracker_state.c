/*
 * tracker_state.c - proves that what a tracker kept in a file can be read back from the
 * file alone, whole; that a file which cannot grow has what it had; and that no damage to
 * the bytes does more than lose what was there.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tracker/growth_copy.h"
#include "tracker/report/report.h"
#include "tracker/stacks/stacks_internal.h"
#include "tracker/statefile/state_read.h"
#include "tracker/tracker_internal.h"
#include "tracker_helpers.h"

#define ROOM       ((size_t)64 << 20)
#define FIRST_ROOM ((size_t)1 << 20)
#define ANNEX      ((size_t)10000) /* bytes of somebody else's */

/* A file in memory: its bytes are there from the start, but it has to ask for them. */
struct file {
    char *bytes;
    size_t length, limit;
    unsigned grown;
    struct gs_state_memory *memory;
    struct gs_stacks *stacks;
    struct gs_tracker *tracker;
};

static const char *const names[] = {"unknown", "cudaMalloc", "cudaFree"};

static bool grow(void *self, size_t length, size_t more)
{
    struct file *file = self;

    cr_assert_eq(length, file->length);
    if (length + more > file->limit)
        return false;
    file->length += more;
    file->grown++;
    return true;
}

static void make(struct file *file, size_t limit)
{
    struct gs_state_config config = {.room = ROOM,
                                     .length = FIRST_ROOM,
                                     .grow = grow,
                                     .self = file,
                                     .version = "1.2.3",
                                     .layout = gs_state_layout("1.2.3", names, 3, 9)};
    struct gs_stacks_config stacks = {.unwinder = GS_UNWIND_OFF, .depth = 32};
    struct gs_tracker_config tracker = {
        .api_names = names, .api_count = 3, .free_history = 64};

    *file = (struct file){.length = FIRST_ROOM, .limit = limit};
    file->bytes = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(file->bytes, MAP_FAILED);
    config.file = file->bytes;
    file->memory = gs_state_memory_create(&config);
    cr_assert_not_null(file->memory);
    stacks.memory = tracker.memory = file->memory;
    cr_assert_eq(gs_stacks_create(&stacks, &file->stacks), GS_OK);
    tracker.stacks = file->stacks;
    cr_assert_eq(gs_tracker_create(&tracker, &file->tracker), GS_OK);
}

static void end(struct file *file)
{
    gs_tracker_destroy(file->tracker);
    gs_stacks_destroy(file->stacks);
    munmap(file->bytes, ROOM);
}

static uint32_t put(struct file *file, unsigned i)
{
    /* Addresses of this program's, so that there are modules. */
    const uintptr_t frames[] = {(uintptr_t)make + 1 + i % 7, (uintptr_t)end + 1};
    struct gs_allocation allocation = {
        .addr = 0x700000000000 + (uint64_t)i * 4096,
        .bytes = 1000 + i % 7,
        .context = 5,
        .stream = i % 11 == 0 ? 77 : 0,
        .time_ns = (uint64_t)(i + 1) * 1000000,
        .thread = 42,
        .stack = gs_stacks_intern(file->stacks, frames, 2),
        .device = (int16_t)(i % 2),
        .api = 1,
        .kind = GS_MEMORY_DEVICE,
    };
    uint32_t id;

    cr_assert_neq(allocation.stack, 0);
    cr_assert_eq(gs_tracker_add(file->tracker, &allocation, i % 3 != 0, &id), GS_OK);
    return id;
}

static enum gs_status read_stacks(const struct file *file, size_t length,
                                  struct gs_state_stacks stacks,
                                  struct gs_state_found *found, const char **problem)
{
    struct gs_state_read_config config = {.version = "1.2.3",
                                          .layout = gs_state_layout("1.2.3", names, 3, 9),
                                          .api_names = names,
                                          .api_count = 3,
                                          .annex_bytes = ANNEX,
                                          .stacks = stacks};

    return gs_state_read(file->bytes, length, &config, found, problem);
}

static enum gs_status read_back(const struct file *file, size_t length,
                                struct gs_state_found *found, const char **problem)
{
    return read_stacks(file, length, (struct gs_state_stacks){0}, found, problem);
}

/* Sums over what is live, by all that is known of it but the numbers of stacks. */
struct sums {
    uint64_t count, bytes, addresses, streams, times, frames, modules;
    const struct gs_stacks *stacks;
};

static bool sum_up(void *arg, const struct gs_allocation *allocation)
{
    struct sums *sums = arg;
    uintptr_t frames[8];
    struct gs_module module;
    unsigned count = gs_stacks_frames(sums->stacks, allocation->stack, frames, 8);

    sums->count++;
    sums->bytes += allocation->bytes;
    sums->addresses += allocation->addr * (uint64_t)(allocation->device + 3);
    sums->streams += allocation->stream;
    sums->times += allocation->time_ns * allocation->bytes;
    for (unsigned i = 0; i < count; i++) {
        sums->frames += frames[i] * (i + 1) * allocation->bytes;
        if (gs_stacks_module(sums->stacks, allocation->stack, frames[i], &module) ==
            GS_OK)
            sums->modules += strlen(module.path) + module.begin;
    }
    return true;
}

static struct sums sums_of(struct gs_tracker *tracker, const struct gs_stacks *stacks)
{
    struct sums sums = {.stacks = stacks};

    gs_records_visit(tracker, sum_up, &sums);
    sums.stacks = NULL;
    return sums;
}

static void expect_equal_sums(const struct sums *a, const struct sums *b)
{
    cr_expect_eq(a->count, b->count);
    cr_expect_eq(a->bytes, b->bytes);
    cr_expect_eq(a->addresses, b->addresses);
    cr_expect_eq(a->streams, b->streams);
    cr_expect_eq(a->times, b->times);
    cr_expect_eq(a->frames, b->frames);
    cr_expect_eq(a->modules, b->modules);
    cr_expect_neq(a->modules, 0);
}

static void expect_equal_totals(struct gs_tracker *a, struct gs_tracker *b, int device)
{
    struct gs_tracker_totals x, y;

    gs_tracker_get_totals(a, device, &x);
    gs_tracker_get_totals(b, device, &y);
#define GS_TOTAL(name, unit, doc) cr_expect_eq(x.name, y.name, "%s of %d", #name, device);
#include "tracker/totals.def"
#undef GS_TOTAL
}

/* More than a chunk of records, frees, failures, wrong frees and a context that died. */
static void live(struct file *file)
{
    const struct gs_free_site site = {.thread = 42, .api = 2, .time_ns = 5};
    struct gs_allocation other = {.addr = 0x600000000000,
                                  .bytes = 7,
                                  .context = 6,
                                  .time_ns = 3000000,
                                  .thread = 42,
                                  .device = 1,
                                  .api = 1,
                                  .kind = GS_MEMORY_PINNED};
    uint32_t id;

    for (unsigned i = 0; i < 40000; i++) {
        id = put(file, i);
        if (i % 5 == 0 && i % 3 != 0)
            gs_tracker_remove(file->tracker, id, &site);
    }
    cr_assert_eq(gs_tracker_add(file->tracker, &other, true, &id), GS_OK);
    gs_tracker_add_failed(file->tracker, 0, GS_MEMORY_DEVICE);
    gs_tracker_lose_context(file->tracker, 6, (1u << GS_MEMORY_KINDS) - 1);
    gs_tracker_error_free(file->tracker, 0x700000000010, 0, &site);
    gs_tracker_error_free(file->tracker, 0x1234, 1, &site);
}

Test(state, is_read_back)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, ROOM);
    live(&file);
    cr_assert_gt(file.grown, 3);
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK, "%s", problem);
    cr_expect_eq(found.left_out, 0);
    cr_expect_eq(found.header->not_there, 0);
    cr_expect_str_eq(found.header->version, "1.2.3");
    struct sums before = sums_of(file.tracker, file.stacks);
    struct sums after = sums_of(found.tracker, found.stacks);
    expect_equal_sums(&before, &after);
    for (int device = GS_TOTALS_FIRST; device < 3; device++)
        expect_equal_totals(file.tracker, found.tracker, device);
    cr_expect_eq(gs_tracker_error_count(found.tracker), 2);
    cr_assert_eq(found.tracker->lost.count, 1);
    cr_expect_eq(found.tracker->lost.items[0].bytes, 7);
    cr_expect_eq(gs_tracker_now(found.tracker), found.last_ns);
    cr_expect_geq(found.last_ns, 40000u * UINT64_C(1000000));
    gs_state_found_free(&found);
    end(&file);
}

static void hand_out(struct file *file, unsigned i)
{
    const uintptr_t frames[] = {(uintptr_t)make + 1 + i % 7, (uintptr_t)end + 1};

    gs_tracker_part(
        file->tracker,
        &(struct gs_part_report){.addr = 0x700000000000 + (uint64_t)i * 512,
                                 .bytes = 100 + i % 9,
                                 .stack = gs_stacks_intern(file->stacks, frames, 2)});
}

/* A sum over the parts by all that is known of them but the numbers of stacks. */
static uint64_t sum_of_parts(struct gs_tracker *tracker, const struct gs_stacks *known,
                             size_t *count)
{
    struct gs_part_list list = gs_cached_parts_copy(tracker->parts);
    uint64_t sum = list.known ? 1 : 0;
    uintptr_t frames[8];

    for (size_t i = 0; i < list.count; i++) {
        const struct gs_part *part = &list.items[i];
        cr_assert_eq(gs_stacks_frames(known, part->stack, frames, 8), 2);
        sum += part->addr * (part->bytes + frames[0] % 1000) + part->time_ns;
    }
    *count = list.count;
    gs_part_list_free(&list);
    return sum;
}

/* Also a part that was being moved within the table when the process ended. */
Test(state, has_what_a_framework_had_handed_out)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;
    size_t count, read;

    make(&file, ROOM);
    for (unsigned i = 0; i < 10000; i++)
        hand_out(&file, i);
    for (unsigned i = 0; i < 10000; i += 3)
        gs_tracker_part(file.tracker,
                        &(struct gs_part_report){
                            .addr = 0x700000000000 + (uint64_t)i * 512, .bytes = -1});
    uint64_t sum = sum_of_parts(file.tracker, file.stacks, &count);
    cr_expect_eq(count, 6666);
    struct gs_part_table *table = file.tracker->parts->table;
    const struct gs_part *live = table->slots;
    struct gs_part *empty = table->slots;
    while (live->addr == 0)
        live++;
    while (empty->addr != 0)
        empty++;
    for (int moved = 0; moved < 2; moved++) {
        cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK);
        cr_expect_eq(sum_of_parts(found.tracker, found.stacks, &read), sum);
        cr_expect_eq(read, count);
        gs_state_found_free(&found);
        *empty = *live;
    }
    end(&file);
}

/* Some of them alone would make a report that is wrong. */
Test(state, parts_that_the_file_cannot_hold_are_unknown)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, (size_t)6 << 20);
    for (unsigned i = 0; i < 40000; i++)
        hand_out(&file, i);
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK, "%s", problem);
    cr_expect_null(found.tracker->parts);
    cr_expect_gt(found.header->not_there, 0);
    gs_state_found_free(&found);
    end(&file);
}

/* A trace refers to stacks whose memory was freed long before: no record has them. */
Test(state, stacks_of_no_record_are_read)
{
    const uintptr_t one[] = {(uintptr_t)make + 3, (uintptr_t)end + 1},
                    two[] = {(uintptr_t)make + 5};
    struct gs_state_found found;
    const char *problem;
    struct file file;
    uintptr_t frames[4];
    struct gs_module module;

    make(&file, ROOM);
    uint32_t first = gs_stacks_intern(file.stacks, one, 2);
    uint32_t second = gs_stacks_intern(file.stacks, two, 1);
    uint32_t ids[] = {second, 0, first, second + 1, UINT32_MAX - 9, second};
    const struct gs_state_stacks wanted = {.ids = ids, .count = GS_ARRAY_LEN(ids)};
    cr_assert_eq(read_stacks(&file, file.length, wanted, &found, &problem), GS_OK, "%s",
                 problem);
    cr_expect_eq(ids[1], 0);
    cr_expect_eq(ids[3], 0, "a stack that the file does not have");
    cr_expect_eq(ids[4], 0);
    cr_expect_eq(ids[0], ids[5]);
    cr_assert_eq(gs_stacks_frames(found.stacks, ids[0], frames, 4), 1);
    cr_expect_eq(frames[0], two[0]);
    cr_assert_eq(gs_stacks_frames(found.stacks, ids[2], frames, 4), 2);
    cr_expect_eq(frames[0], one[0]);
    cr_expect_eq(frames[1], one[1]);
    cr_expect_eq(gs_stacks_module(found.stacks, ids[2], frames[0], &module), GS_OK);
    gs_state_found_free(&found);
    end(&file);
}

/* ---- the totals alone ------------------------------------------------------------- */

static bool fetch_bytes(void *self, uint64_t offset, void *out, size_t bytes)
{
    const struct file *file = self;

    if (offset > file->length || bytes > file->length - offset)
        return false;
    memcpy(out, file->bytes + offset, bytes);
    return true;
}

/* A thread that allocates, and waits for the others: each has a shard of its own. */
struct thread {
    pthread_t id;
    pthread_barrier_t *all;
    struct file *file;
    unsigned number;
};

static void *allocate(void *arg)
{
    const struct thread *thread = arg;

    for (unsigned i = 0; i < 3; i++)
        put(thread->file, 100000 + 10 * thread->number + i);
    pthread_barrier_wait(thread->all);
    return NULL;
}

Test(state, totals_are_read_alone)
{
    enum { THREADS = 20 };
    static struct gs_tracker_totals found[GS_STATE_NOW_ROWS];
    struct thread threads[THREADS];
    pthread_barrier_t all;
    struct gs_tracker_totals wanted;
    struct file file;

    make(&file, ROOM);
    struct gs_state_header *header = gs_state_memory_header(file.memory);
    header->device_count = 2;
    header->tracker = (uintptr_t)file.tracker;
    live(&file);
    pthread_barrier_init(&all, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.all = &all, .file = &file, .number = i};
        cr_assert_eq(pthread_create(&threads[i].id, NULL, allocate, &threads[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    cr_assert(gs_state_read_now(header, fetch_bytes, &file, found));
    for (unsigned i = 0; i < 3; i++) {
        unsigned row = i < 2 ? i : GS_STATE_NOW_ROWS - 1;

        gs_tracker_get_totals(file.tracker, i < 2 ? (int)i : GS_TOTALS_PINNED, &wanted);
        cr_expect_neq(wanted.allocs, 0);
#define GS_TOTAL(name, unit, doc)                                                        \
    cr_expect_eq(found[row].name, wanted.name, "%s of %u", #name, row);
#include "tracker/totals.def"
#undef GS_TOTAL
    }
    cr_expect_eq(found[2].allocs, 0);
    file.length = header->tracker - header->base + 100000;
    cr_expect_not(gs_state_read_now(header, fetch_bytes, &file, found), "cut short");
    header->tracker = UINT64_MAX - 8;
    cr_expect_not(gs_state_read_now(header, fetch_bytes, &file, found), "nowhere");
    header->tracker = 0;
    cr_expect(gs_state_read_now(header, fetch_bytes, &file, found), "just started");
    cr_expect_eq(found[0].allocs, 0);
    munmap(file.bytes, ROOM);
}

/* One more of a place; no address comes twice. */
static void keep(struct file *file, unsigned place)
{
    static uint64_t next = 0x710000000000;
    const uintptr_t frames[] = {(uintptr_t)make + 1 + place, (uintptr_t)end + 1};
    struct gs_allocation allocation = {.addr = next,
                                       .bytes = 512,
                                       .context = 5,
                                       .time_ns = 1000000,
                                       .thread = 42,
                                       .stack = gs_stacks_intern(file->stacks, frames, 2),
                                       .api = 1,
                                       .kind = GS_MEMORY_DEVICE};
    uint32_t id;

    next += 4096;
    cr_assert_eq(gs_tracker_add(file->tracker, &allocation, true, &id), GS_OK);
}

/* One place grows from look to look, another does not. */
static struct gs_growth *look_on(struct file *file, unsigned looks)
{
    struct gs_growth *growth = gs_growth_create();

    cr_assert_not_null(growth);
    keep(file, 2);
    for (unsigned i = 0; i < looks; i++) {
        keep(file, 1);
        gs_growth_take_snapshot(growth, file->tracker);
    }
    return growth;
}

static char *growth_text(struct gs_growth *growth, struct gs_tracker *tracker)
{
    const struct gs_report_config config = {.pid = 1};
    struct gs_growth_names kept = {0};
    struct gs_text text = {0};

    gs_growth_write(growth, tracker, &config, 10, &kept, &text);
    gs_growth_names_free(&kept);
    return text.data;
}

Test(state, has_the_last_look_at_what_grows)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, ROOM);
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK, "%s", problem);
    cr_expect_null(found.growth, "nobody has looked");
    gs_state_found_free(&found);
    for (unsigned looks = 2; looks < 9; looks++) { /* in either of the two copies */
        struct gs_growth *growth = look_on(&file, looks);

        cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK);
        cr_assert_not_null(found.growth);
        char *was = growth_text(growth, file.tracker);
        char *is = growth_text(found.growth, found.tracker);
        cr_expect_eq(strstr(was, "GROWING 1") != NULL, looks > 3, "%s", was);
        /* Ages are of the clock, which stands still in what was read. */
        cr_expect_eq(strcspn(was, "\n"), strcspn(is, "\n"));
        cr_expect_eq(strncmp(was, is, strcspn(was, "\n")), 0, "%s%s", was, is);
        const char *place = strstr(was, "GROWING 1");
        const char *found_place = strstr(is, "GROWING 1");
        cr_assert_eq(place != NULL, found_place != NULL);
        if (place)
            cr_expect_eq(strncmp(place, found_place, strcspn(place, "\n")), 0);
        free(was);
        free(is);
        gs_state_found_free(&found);
        gs_growth_destroy(growth);
    }
    end(&file);
}

/* A look that is written when the process ends is none: the one before it stands. */
Test(state, half_a_look_is_not_read)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, ROOM);
    struct gs_growth *growth = look_on(&file, 5);
    struct gs_growth_copy *copy = file.tracker->growth_copy;
    uint64_t whole = copy->current;
    memset(&copy->copies[whole == 1 ? 1 : 0], 0xee, sizeof(copy->copies[0]) / 2);
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK);
    char *was = growth_text(growth, file.tracker);
    char *is = growth_text(found.growth, found.tracker);
    cr_expect_eq(strncmp(was, is, strcspn(was, "\n")), 0, "%s%s", was, is);
    free(was);
    free(is);
    gs_state_found_free(&found);
    copy->current = 3;
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK);
    cr_expect_null(found.growth, "there is no third");
    gs_state_found_free(&found);
    copy->current = whole;
    /* A place that cannot have grown as it says is left out. */
    copy->copies[whole - 1].growing[0].trend.base_bytes = UINT64_MAX;
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK);
    is = growth_text(found.growth, found.tracker);
    cr_expect_null(strstr(is, "GROWING"), "%s", is);
    free(is);
    gs_state_found_free(&found);
    gs_growth_destroy(growth);
    end(&file);
}

Test(state, has_room_for_somebody_else)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, ROOM);
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK);
    cr_expect_null(found.annex, "there is none yet");
    gs_state_found_free(&found);
    char *annex = gs_state_annex(file.memory, ANNEX);
    cr_assert_not_null(annex);
    cr_expect_eq(annex[0], 0);
    cr_expect_eq(annex[ANNEX - 1], 0);
    memset(annex, 'x', ANNEX);
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK);
    cr_assert_not_null(found.annex);
    cr_expect_eq(memcmp(found.annex, annex, ANNEX), 0);
    gs_state_found_free(&found);
    /* Cut within it, the rest is read. */
    size_t length = (size_t)(annex - file.bytes) + ANNEX - 1;
    cr_assert_eq(read_back(&file, length, &found, &problem), GS_OK);
    cr_expect_null(found.annex);
    gs_state_found_free(&found);
    cr_expect_null(gs_state_annex(file.memory, 2 * ROOM), "no room");
    cr_expect_null(gs_state_annex(NULL, ANNEX));
    cr_expect_neq(gs_state_layout("1", names, 3, 1), gs_state_layout("1", names, 3, 2));
    end(&file);
}

/* The rest is recorded all the same, only not in the file. */
Test(state, a_file_that_cannot_grow)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, (size_t)6 << 20);
    live(&file);
    struct sums all = sums_of(file.tracker, file.stacks);
    for (unsigned i = 0; i < 300; i++) { /* the table of modules leaves the file */
        const struct gs_module_record other = {
            .module = {.path = "/other", .begin = 16 * i + 1, .end = 16 * i + 2}};

        gs_module_table_add(&file.stacks->modules, &other);
    }
    cr_assert_eq(read_back(&file, file.length, &found, &problem), GS_OK, "%s", problem);
    struct sums some = sums_of(found.tracker, found.stacks);
    cr_expect_eq(all.count, 34667);
    cr_expect_lt(some.count, all.count);
    cr_expect_neq(some.modules, 0, "what the file had of modules");
    cr_expect_gt(found.header->not_there, 0);
    gs_state_found_free(&found);
    end(&file);
}

Test(state, what_is_no_state_file)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, ROOM);
    put(&file, 1);
    cr_expect_eq(read_back(&file, 0, &found, &problem), GS_ERR_INVALID);
    cr_expect_str_eq(problem, "not a state file of gpushim");
    cr_expect_eq(read_back(&file, 100, &found, &problem), GS_ERR_INVALID);
    cr_expect_str_eq(problem, "cut short");
    cr_expect_eq(read_back(&file, 65536, &found, &problem), GS_ERR_INVALID);
    cr_expect_str_eq(problem, "cut short");
    struct gs_state_header *header = gs_state_memory_header(file.memory);
    header->layout++;
    cr_expect_eq(read_back(&file, file.length, &found, &problem), GS_ERR_INVALID);
    cr_expect_str_eq(problem, "of another build of gpushim");
    header->version[0] = '9';
    cr_expect_eq(read_back(&file, file.length, &found, &problem), GS_ERR_INVALID);
    cr_expect_str_eq(problem, "of another version of gpushim");
    header->layout--;
    header->tracker = 0;
    cr_expect_eq(read_back(&file, file.length, &found, &problem), GS_ERR_INVALID);
    cr_expect_str_eq(problem, "of a process that had just started");
    end(&file);
}

/* More records than there can be. */
Test(state, a_limit_beyond_the_tables)
{
    struct gs_state_found found;
    const char *problem;
    struct file file;

    make(&file, ROOM);
    for (unsigned i = 0; i < 100; i++)
        put(&file, i);
    file.tracker->record_limit = UINT32_MAX;
    size_t length = (size_t)((char *)(file.tracker + 1) - file.bytes);
    for (int cut = 0; cut < 2; cut++) {
        size_t bytes = cut ? length : file.length;
        char *exact = aligned_alloc(4096, gs_round_up(bytes, 4096));

        cr_assert_not_null(exact);
        memcpy(exact, file.bytes, bytes);
        struct file copied = {.bytes = exact, .length = bytes};
        cr_expect_eq(read_back(&copied, bytes, &found, &problem), GS_OK);
        gs_state_found_free(&found);
        free(exact);
    }
    file.tracker->record_limit = 128;
    end(&file);
}

/* A word that is likely to do harm: small, huge, an address within or beside the file. */
static uint64_t evil(const struct file *file)
{
    switch (rand() % 5) {
    case 0:
        return (uint64_t)(rand() % 3);
    case 1:
        return UINT64_MAX - (uint64_t)(rand() % 3);
    case 2:
        return (uintptr_t)file->bytes + (uint64_t)rand() % file->length;
    case 3:
        return (uintptr_t)file->bytes + file->length - (uint64_t)(rand() % 64);
    default:
        return (uint64_t)rand() << 32 | (uint64_t)rand();
    }
}

/* The report is written, too, for it trusts the tracker. */
static void read_and_report(const struct file *file, size_t length)
{
    struct gs_state_found found;
    const char *problem;
    struct gs_report_config config = {.version = "1.2.3",
                                      .rank = -1,
                                      .max_groups = 10,
                                      .show_leaks = true,
                                      .show_devices = true,
                                      .growing = 10};
    struct gs_report_summary summary;
    struct gs_text text = {0};

    if (read_back(file, length, &found, &problem) != GS_OK) {
        cr_assert_not_null(problem);
        return;
    }
    config.growth = found.growth;
    gs_report_write(found.tracker, &config, &text, &summary);
    cr_assert_not_null(strstr(text.data, "SUMMARY"));
    gs_text_free(&text);
    gs_state_found_free(&found);
}

Test(state, damage_loses_no_more_than_what_was_there, .timeout = 300)
{
    const char *seeds = getenv("GPUSHIM_TEST_SEEDS");
    unsigned rounds = seeds ? (unsigned)atoi(seeds) * 10 : 100;
    struct file good, bad = {0};

    make(&good, ROOM);
    for (unsigned i = 0; i < 3000; i++)
        put(&good, i);
    for (unsigned i = 0; i < 3000; i++)
        hand_out(&good, i);
    gs_tracker_error_free(good.tracker, 0x1234, 1, NULL);
    gs_growth_destroy(look_on(&good, 6));
    cr_assert_not_null(gs_state_annex(good.memory, ANNEX));
    bad.bytes = malloc(good.length);
    cr_assert_not_null(bad.bytes);
    for (unsigned round = 0; round < rounds; round++) {
        size_t length = good.length;

        srand(round);
        memcpy(bad.bytes, good.bytes, good.length);
        bad.length = good.length;
        for (int i = rand() % 3000; i >= 0; i--) {
            /* Words behind the header's identity: of the tracker's tables, mostly. */
            size_t at = 48 + (size_t)rand() % (good.length - 56) / 8 * 8;
            uint64_t word = evil(&good);

            memcpy(bad.bytes + at, &word, sizeof(word));
        }
        if (round % 3 == 0)
            length = (size_t)rand() % length;
        /* Behind the end nothing may be read: a block of its very size. */
        char *exact = aligned_alloc(4096, gs_round_up(length + 1, 4096));
        cr_assert_not_null(exact);
        memcpy(exact, bad.bytes, length);
        struct file cut = {.bytes = exact, .length = length};
        read_and_report(&cut, length);
        free(exact);
    }
    free(bad.bytes);
    end(&good);
}

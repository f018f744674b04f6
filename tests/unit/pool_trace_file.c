/*
 * pool_trace_file.c - proves that a trace file is read as it was written, and that
 * whatever happens to it, it is refused or read up to the damage, with one sentence.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "generate.h"
#include "pool_fake.h"
#include "shim/tools/replay/replay_file.h"

struct image {
    unsigned char *data;
    size_t length;
};

static struct image image_of(const struct gs_replay_trace *trace, bool binary)
{
    struct image image;
    FILE *file = open_memstream((char **)&image.data, &image.length);

    cr_assert(binary ? gs_replay_write_binary(trace, file)
                     : gs_replay_write_csv(trace, file));
    fclose(file);
    return image;
}

static struct gs_replay_trace make(const char *preset, uint32_t allocations)
{
    struct generate_settings settings = {.seed = 7, .allocations = allocations};
    struct gs_replay_trace trace;

    generate(preset_find(preset), &settings, &trace);
    return trace;
}

/* As far as `part` goes it is `whole`, but for numbers given in order of appearance. */
static bool is_prefix(const struct gs_replay_trace *part,
                      const struct gs_replay_trace *whole)
{
    if (part->count > whole->count)
        return false;
    for (size_t i = 0; i < part->count; i++) {
        const struct gs_replay_op *a = &part->ops[i], *b = &whole->ops[i];

        if (a->op != b->op || a->id != b->id || a->bytes != b->bytes ||
            a->how != b->how || a->time_ns / 1000 != b->time_ns / 1000)
            return false;
    }
    return true;
}

Test(trace_file, both_formats_give_back_what_was_written)
{
    for (size_t i = 0; i < preset_count; i++) {
        struct gs_replay_trace trace = make(presets[i].name, 2000);

        for (int binary = 0; binary < 2; binary++) {
            struct image image = image_of(&trace, binary);
            struct gs_replay_note note;
            struct gs_replay_trace again;

            cr_assert(gs_replay_parse(image.data, image.length, &again, &note));
            cr_expect_str_empty(note.text);
            cr_expect_eq(again.count, trace.count);
            for (size_t op = 0; op < trace.count; op++) /* CSV does not say it of frees */
                trace.ops[op].how = again.ops[op].how;
            cr_expect(is_prefix(&again, &trace), "%s", presets[i].name);
            cr_expect_eq(again.threads, trace.threads);
            gs_replay_free(&again);
            free(image.data);
        }
        gs_replay_free(&trace);
    }
}

/* As of a running program: all of the file counts. */
static void forget_end(struct image *image)
{
    memset(image->data + offsetof(struct gs_trace_header, end_slots), 0,
           sizeof(struct gs_trace_header) - offsetof(struct gs_trace_header, end_slots));
}

static void count_operation(void *count, const struct gs_replay_op *op, uint64_t address)
{
    (void)op;
    (void)address;
    ++*(size_t *)count;
}

/* Or a reader of a running program's trace ends by a signal: the program cuts off what it
 * has not used. */
Test(trace_file, is_read_while_its_program_ends)
{
    struct gs_replay_trace trace = make("remote", 60), again = {0};
    struct image image = image_of(&trace, true);
    struct gs_replay_file file = {.length = GS_TRACE_CHUNK_BYTES};
    char path[] = "/tmp/gpushim-trace.XXXXXX";
    struct gs_replay_note note = {""};
    size_t count = 0;

    forget_end(&image);
    file.fd = mkstemp(path);
    cr_assert_geq(file.fd, 0);
    cr_assert_eq(write(file.fd, image.data, image.length), (ssize_t)image.length);
    cr_assert_eq(ftruncate(file.fd, (off_t)file.length), 0);
    file.data = mmap(NULL, file.length, PROT_READ, MAP_PRIVATE, file.fd, 0);
    cr_assert_neq(file.data, MAP_FAILED);
    cr_assert_eq(ftruncate(file.fd, (off_t)image.length), 0);
    cr_assert(gs_replay_scan_binary(&file, &again, &note));
    cr_expect_eq(again.count, trace.count);
    gs_replay_visit_binary(&file, count_operation, NULL, &count);
    cr_expect_eq(count, trace.count);
    unlink(path);
    close(file.fd);
    free(file.order);
    free(image.data);
    gs_replay_free(&trace);
}

static struct gs_trace_record record_of(uint8_t op, uint64_t time_ns, uint64_t key)
{
    return (struct gs_trace_record){.op = op,
                                    .kind = GS_TRACE_KIND_DEVICE,
                                    .time_ns = time_ns,
                                    .key = key,
                                    .bytes = op == GS_TRACE_ALLOC ? 512 : 0};
}

/* An image of these records, of a running program. */
static struct image image_of_records(struct gs_trace_record *records, size_t count)
{
    struct gs_replay_trace none = {0};
    struct image image = image_of(&none, true);
    size_t bytes = count * sizeof(*records);

    forget_end(&image);
    image.data = realloc(image.data, image.length + bytes);
    for (size_t i = 0; i < count; i++) {
        uint64_t words[offsetof(struct gs_trace_record, seal) / 8];

        memcpy(words, &records[i], sizeof(words));
        records[i].seal =
            gs_trace_seal(words, GS_ARRAY_LEN(words), GS_TRACE_HEADER_SLOTS + i);
    }
    memcpy(image.data + image.length, records, bytes);
    image.length += bytes;
    return image;
}

/* Of a free that was refused nothing is left: no operation, no number, no time. */
Test(trace_file, refused_frees_are_passed_over)
{
    struct gs_trace_record records[] = {
        record_of(GS_TRACE_ALLOC, 1, 0x1000),        record_of(GS_TRACE_FREE, 2, 0x1000),
        record_of(GS_TRACE_FREE_REFUSED, 3, 0x1000), record_of(GS_TRACE_FREE, 4, 0x1000),
        record_of(GS_TRACE_ALLOC, 5, 0x2000),        record_of(GS_TRACE_FREE, 90, 0x2000),
        record_of(GS_TRACE_FREE_REFUSED, 91, 0x2000)};
    static const uint64_t times[] = {1, 4, 5};
    struct image image = image_of_records(records, GS_ARRAY_LEN(records));
    struct gs_replay_trace trace;
    struct gs_replay_note note;

    cr_assert(gs_replay_parse(image.data, image.length, &trace, &note));
    cr_assert_eq(trace.count, GS_ARRAY_LEN(times));
    for (size_t i = 0; i < GS_ARRAY_LEN(times); i++)
        cr_expect_eq(trace.ops[i].time_ns, times[i]);
    cr_expect_eq(trace.end_ns, 5);
    cr_expect_eq(trace.allocations, 2);
    gs_replay_free(&trace);
    free(image.data);
}

struct seen {
    size_t operations, count;
    struct gs_replay_range ranges[8];
    size_t behind[8]; /* operations before it */
};

static void see_operation(void *self, const struct gs_replay_op *op, uint64_t address)
{
    struct seen *seen = self;

    (void)op;
    (void)address;
    seen->operations++;
}

static void see_range(void *self, const struct gs_replay_range *range)
{
    struct seen *seen = self;

    cr_assert_lt(seen->count, GS_ARRAY_LEN(seen->ranges));
    seen->behind[seen->count] = seen->operations;
    seen->ranges[seen->count++] = *range;
}

/* What the pool got and gave back is no operation, and stands between them. */
Test(trace_file, ranges_are_between_the_operations)
{
    struct gs_trace_record records[] = {
        record_of(GS_TRACE_MAPPED, 1, 0x1000), record_of(GS_TRACE_ALLOC, 2, 0x1200),
        record_of(GS_TRACE_UNMAPPED, 3, 0x8000), record_of(GS_TRACE_CONTEXT_END, 4, 0)};
    static const struct gs_replay_range wanted[] = {
        {.time_ns = 1, .begin = 0x1000, .bytes = 4096, .op = GS_TRACE_MAPPED},
        {.time_ns = 3, .begin = 0x8000, .bytes = 0, .op = GS_TRACE_UNMAPPED},
        {.time_ns = 4, .context = 3, .op = GS_TRACE_CONTEXT_END}};
    static const size_t behind[] = {0, 1, 2};
    struct gs_replay_file file = {.fd = -1};
    struct gs_replay_trace trace = {.file = &file};
    struct gs_replay_note note = {""};
    struct seen seen = {0};

    records[0].bytes = 4096;
    for (size_t i = 0; i < GS_ARRAY_LEN(records); i++)
        records[i].context = 3;
    struct image image = image_of_records(records, GS_ARRAY_LEN(records));
    file.data = image.data;
    file.length = image.length;
    cr_assert(gs_replay_scan_binary(&file, &trace, &note));
    cr_expect_eq(trace.count, 2); /* the allocation, and its end with the context */
    cr_expect_eq(trace.end_ns, 4);
    gs_replay_visit_ranges(&trace, see_operation, see_range, &seen);
    cr_expect_eq(seen.operations, 2);
    cr_assert_eq(seen.count, GS_ARRAY_LEN(wanted));
    for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++) {
        cr_expect_eq(seen.ranges[i].op, wanted[i].op);
        cr_expect_eq(seen.ranges[i].time_ns, wanted[i].time_ns);
        cr_expect_eq(seen.ranges[i].begin, wanted[i].begin);
        cr_expect_eq(seen.ranges[i].bytes, wanted[i].bytes);
        cr_expect_eq(seen.ranges[i].context, 3);
        cr_expect_eq(seen.behind[i], behind[i]);
    }
    gs_replay_visit(&trace, see_operation, &seen);
    cr_expect_eq(seen.operations, 4);
    free(file.order);
    free(image.data);
}

/* Every allocation of `part` is one of `whole`: times differ from each other there. */
static bool is_part(const struct gs_replay_trace *part,
                    const struct gs_replay_trace *whole)
{
    size_t at = 0;

    for (size_t i = 0; i < part->count; i++) {
        if (part->ops[i].op != GS_TRACE_ALLOC)
            continue;
        while (at < whole->count && whole->ops[at].time_ns < part->ops[i].time_ns)
            at++;
        if (at == whole->count || whole->ops[at].time_ns != part->ops[i].time_ns ||
            whole->ops[at].op != GS_TRACE_ALLOC ||
            whole->ops[at].bytes != part->ops[i].bytes)
            return false;
    }
    return part->count <= whole->count;
}

Test(trace_file, every_truncation_is_noticed)
{
    struct gs_replay_trace trace = make("remote", 60);
    struct image image = image_of(&trace, true);

    for (size_t length = 0; length < image.length; length++) {
        struct gs_replay_note note;
        struct gs_replay_trace part;
        bool good = gs_replay_parse(image.data, length, &part, &note);

        cr_assert_str_not_empty(note.text, "%zu of %zu bytes", length, image.length);
        cr_assert(good || part.count == 0);
        cr_assert(is_prefix(&part, &trace));
        gs_replay_free(&part);
    }
    gs_replay_free(&trace);
    free(image.data);
}

Test(trace_file, every_changed_byte_is_noticed)
{
    struct gs_replay_trace trace = make("remote", 40);
    struct image image = image_of(&trace, true);
    uint64_t random = 99;

    for (size_t at = 0; at < image.length; at++) {
        unsigned char change = (unsigned char)(1 + bed_random(&random) % 255);
        struct gs_replay_note note;
        struct gs_replay_trace part;

        image.data[at] ^= change;
        cr_assert(gs_replay_parse(image.data, image.length, &part, &note) ||
                  at < sizeof(struct gs_trace_header));
        cr_assert_str_not_empty(note.text, "byte %zu ^ %02x", at, change);
        cr_assert(is_part(&part, &trace), "byte %zu ^ %02x", at, change);
        cr_assert(part.count == 0 || part.count + 2 >= trace.count);
        gs_replay_free(&part);
        image.data[at] ^= change;
    }
    gs_replay_free(&trace);
    free(image.data);
}

/* Change, cut, repeat and zero pieces of it; then only no harm is asked for. */
static void damage(struct image *image, uint64_t *random)
{
    for (unsigned n = 1 + bed_random(random) % 4; n > 0; n--) {
        size_t at = bed_random(random) % image->length;
        size_t most = image->length - at;
        size_t bytes = 1 + bed_random(random) % (most < 200 ? most : 200);

        switch (bed_random(random) % 5) {
        case 0:
            memset(image->data + at, 0, bytes);
            break;
        case 1:
            memmove(image->data + at, image->data + bed_random(random) % (at + 1), bytes);
            break;
        case 2:
            image->length = at + 1;
            break;
        default:
            image->data[at] = (unsigned char)bed_random(random);
            break;
        }
    }
}

static void damage_often(bool binary, unsigned times)
{
    struct gs_replay_trace trace = make("bursts", 300);
    struct image whole = image_of(&trace, binary);
    struct image image = {.data = malloc(whole.length)};
    uint64_t random = 4711;

    for (unsigned i = 0; i < times; i++) {
        struct gs_replay_note note;
        struct gs_replay_trace part;
        size_t live = 0, frees = 0;

        memcpy(image.data, whole.data, whole.length);
        image.length = whole.length;
        damage(&image, &random);
        (void)gs_replay_parse(image.data, image.length, &part, &note);
        cr_assert_null(strchr(note.text, '\n'));
        for (size_t op = 0; op < part.count; op++) {
            cr_assert_lt(part.ops[op].id, part.allocations + 1);
            live += part.ops[op].op == GS_TRACE_ALLOC;
            frees += part.ops[op].op == GS_TRACE_FREE;
        }
        cr_assert_leq(frees, live);
        gs_replay_free(&part);
    }
    gs_replay_free(&trace);
    free(whole.data);
    free(image.data);
}

Test(trace_file, no_damage_does_harm_to_the_binary_reader)
{
    damage_often(true, 4000);
}

Test(trace_file, no_damage_does_harm_to_the_csv_reader)
{
    damage_often(false, 4000);
}

static void expect_csv(const char *text, size_t count, const char *said)
{
    struct gs_replay_note note;
    struct gs_replay_trace trace;
    bool good = gs_replay_parse((const unsigned char *)text, strlen(text), &trace, &note);

    cr_expect_eq(good, count > 0, "%s", text);
    cr_expect_eq(trace.count, count, "%zu operations of: %s", trace.count, text);
    if (said)
        cr_expect_not_null(strstr(note.text, said), "'%s' of: %s", note.text, text);
    else
        cr_expect_str_empty(note.text);
    gs_replay_free(&trace);
}

Test(trace_file, csv_is_read_up_to_the_bad_line)
{
    expect_csv("t_us,op,id,bytes,stream\n1,a,5,100,7\n2,f,5,0,7\n", 2, NULL);
    expect_csv("1,a,5,100,7,3,managed\n2,s,0,0,7,4\n", 2, NULL);
    expect_csv("1,a,5,100,7\r\n", 1, NULL);
    expect_csv("", 0, "nothing in it");
    expect_csv("hello\n", 0, "not t_us");
    expect_csv("1,a,5,100,7\n2,x,5,100,7\n", 1, "line 2: not t_us");
    expect_csv("1,a,5,100,7\n2,a,5,100,7\n", 1, "line 2: an id is allocated twice");
    expect_csv("1,a,5,100,7\n2,f,6,0,7\n", 1, "1 frees of memory that is not live");
    expect_csv("1,a,5,100,7\n2,f,5,0", 1, "line 2: cut off");
    expect_csv("1,a,5,-1,7\n", 0, "not t_us");
    expect_csv("1,a,5,99999999999999999999,7\n", 0, "not t_us");
    expect_csv("1,a,5,100,7,0,cheese\n", 0, "no such kind");
    expect_csv("1,a,5,100,7,0,device,9\n", 0, "not t_us");
}

/*
 * refusals.c - which allocations a small device serves.   refusals MODE SEED [STEPS
 * [FILE]]
 *
 *   roomy   memory of every kind and of many sizes, half of the device at most, and now
 * and then more than there is full    large blocks of a few sizes, of every kind, until
 * there is no more lost    a few allocations; the answers once the device has failed are
 * printed, too
 *
 * Kernels fill what was allocated while others are allocated and freed; what they wrote
 * is looked at before each free. The requests depend on the seed alone.
 *
 * Without FILE the answer to each is printed. FILE is such a list, of a run without the
 * library: then nothing that was served there may be refused here, but by a failure
 * that was made (CUDASIM_FAIL with CUDASIM_LOG=1, which says so on standard error; this
 * program listens); what was refused there is refused with the same code or, if it is
 * served, freed at once. At the end a block as large as all that was free must fit.
 */
#include <fcntl.h>
#include <unistd.h>

#include "kernels.h"
#include "launch.h"

enum kind { DEVICE, PITCH, ASYNC, ARRAY, PHYSICAL, MANAGED, HOST, KINDS };

enum { SLOTS = 40, EDGE = 64, NO_MEMORY = 2 };

struct slot {
    bool taken;        /* by the list: served without the library */
    bool used, filled; /* here, now */
    enum kind kind;
    size_t bytes;
    size_t words; /* of them, those a kernel writes */
    uint32_t seed;
    gpu_ptr ptr; /* of linear memory */
    void *host;
    CUarray array;
    CUdeviceptr mapped;
};

static struct slot slots[SLOTS];
static struct app_kernels kernels;
static gpu_stream streams[2];
static uint64_t state;
static size_t held, room; /* on the device; at the beginning */
static FILE *before;      /* the list of a run without the library, or NULL */
static long number, refused, made, served_more;
static int made_code;           /* of the last failure that was made */
static int listening, speaking; /* what standard error is read from; what it really is */

static uint64_t draw(uint64_t limit)
{
    return app_random(&state) % limit;
}

/* ---- failures that were made ---------------------------------------------------------
 */

static void listen_to_device(void)
{
    int ends[2];

    app_check(pipe2(ends, O_CLOEXEC), "pipe2", __FILE__, __LINE__);
    app_check(fcntl(ends[0], F_SETFL, O_NONBLOCK), "fcntl", __FILE__, __LINE__);
    fflush(stderr);
    speaking = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    listening = ends[0];
    app_expect(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO, "dup2");
    close(ends[1]);
}

/* Was a call made to fail since this was asked last? What else was said is passed on. */
static bool device_failed(void)
{
    static char text[65536];
    static const char said[] = " fails on request with ";
    bool failed = false;
    ssize_t length;

    while ((length = read(listening, text, sizeof(text) - 1)) > 0) {
        text[length] = '\0';
        for (char *line = text, *end; (end = strchr(line, '\n')) != NULL;
             line = end + 1) {
            *end = '\0';
            if (strstr(line, said)) {
                failed = true;
                made_code = atoi(strstr(line, said) + sizeof(said) - 1);
            } else {
                dprintf(speaking, "%s\n", line);
            }
        }
    }
    return failed;
}

static void stop_listening(void)
{
    (void)device_failed();
    app_expect(dup2(speaking, STDERR_FILENO) == STDERR_FILENO, "dup2");
    close(speaking);
    close(listening);
}

/* The end of a run that found something. */
static void expect(bool held_true, const char *what)
{
    if (!held_true) {
        stop_listening();
        fprintf(stderr, "refusals: request %ld: ", number);
        app_expect(false, what);
    }
}

static void ok(int code, const char *call)
{
    if (code != 0) {
        stop_listening();
        fprintf(stderr, "refusals: request %ld\n", number);
        app_check(code, call, __FILE__, __LINE__);
    }
}
#define OK(call) ok((int)(call), #call)

/* ---- allocate and free ---------------------------------------------------------------
 */

static int create_array(struct slot *slot)
{
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1024,
                                   .Height = (slot->bytes + 4095) / 4096,
                                   .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                   .NumChannels = 1};

    return (int)CU(cuArrayCreate)(&slot->array, &shape);
}

static int create_physical(struct slot *slot)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    size_t bytes = slot->bytes;
    int code = (int)CU(cuMemCreate)(&handle, bytes, &prop, 0);

    if (code != 0)
        return code;
    OK(CU(cuMemAddressReserve)(&slot->mapped, bytes, 0, 0, 0));
    OK(CU(cuMemMap)(slot->mapped, bytes, 0, handle, 0));
    OK(CU(cuMemRelease)(handle));
    OK(CU(cuMemSetAccess)(slot->mapped, bytes, &access, 1));
    slot->ptr = gpu_from_address(slot->mapped);
    return 0;
}

static int take(struct slot *slot)
{
    size_t pitch;

    slot->ptr = 0;
    switch (slot->kind) {
    case DEVICE:
        return (int)gpu_malloc(&slot->ptr, slot->bytes);
    case PITCH:
        return (int)gpu_malloc_pitch(&slot->ptr, &pitch, 4096,
                                     (slot->bytes + 4095) / 4096);
    case ASYNC:
        return (int)gpu_malloc_async(&slot->ptr, slot->bytes, streams[0]);
    case ARRAY:
        return create_array(slot);
    case PHYSICAL:
        return create_physical(slot);
    case MANAGED:
        return (int)gpu_malloc_managed(&slot->ptr, slot->bytes);
    default:
        return (int)gpu_malloc_host(&slot->host, slot->bytes);
    }
}

static bool is_of_device(enum kind kind)
{
    return kind <= PHYSICAL;
}

/* Both ends of what the kernel wrote; its stream has to have come so far. */
static void look(const struct slot *slot)
{
    static uint32_t words[EDGE];
    size_t count = slot->words < EDGE ? slot->words : EDGE;

    OK(gpu_stream_sync(streams[slot->kind != ASYNC]));
    for (size_t first = 0;; first = slot->words - count) {
        OK(gpu_get(words, (gpu_ptr)((uintptr_t)slot->ptr + 4 * first), 4 * count));
        for (size_t i = 0; i < count; i++)
            expect(words[i] == gs_pattern(slot->seed, first + i),
                   "memory does not hold what a kernel wrote");
        if (first == slot->words - count)
            return;
    }
}

static void give(struct slot *slot)
{
    switch (slot->kind) {
    case ASYNC:
        OK(gpu_free_async(slot->ptr, streams[0]));
        OK(gpu_stream_sync(streams[0]));
        break;
    case ARRAY:
        OK(CU(cuArrayDestroy)(slot->array));
        break;
    case PHYSICAL:
        OK(gpu_sync());
        OK(CU(cuMemUnmap)(slot->mapped, slot->bytes));
        OK(CU(cuMemAddressFree)(slot->mapped, slot->bytes));
        break;
    case HOST:
        OK(gpu_free_host(slot->host));
        break;
    default:
        OK(gpu_free(slot->ptr));
    }
    slot->used = false;
}

/* ---- the sequence --------------------------------------------------------------------
 */

/* What a kernel can write, it does; nobody waits for it. */
static void use(struct slot *slot)
{
    slot->words = slot->bytes / 4;
    slot->seed = (uint32_t)number * 7919u;
    slot->filled = slot->kind != ARRAY && slot->kind != HOST && slot->words > 0;
    if (slot->filled)
        app_fill(&kernels, slot->ptr, slot->words, slot->seed,
                 streams[slot->kind != ASYNC]);
}

static void empty(struct slot *slot)
{
    bool looked = draw(2) == 0;

    if (slot->used && slot->filled && looked)
        look(slot);
    if (slot->used)
        give(slot);
    if (is_of_device(slot->kind))
        held -= slot->bytes;
    slot->taken = false;
}

/* The answer of the run without the library to this very request. */
static int answer_before(const struct slot *slot)
{
    long was_number;
    int kind, code;
    size_t bytes;

    if (fscanf(before, "request %ld kind %d bytes %zu answer %d\n", &was_number, &kind,
               &bytes, &code) != 4 ||
        was_number != number || kind != (int)slot->kind)
        expect(false, "the list is of other requests");
    return code;
}

/* `was`: the answer without the library. */
static void judge(const struct slot *slot, int was, int code, bool failed)
{
    made += failed;
    refused += code != 0;
    served_more += was != 0 && code == 0;
    if (code == 0)
        return;
    if (was == 0 && !failed)
        fprintf(stderr, "refusals: kind %d, %zu bytes, answer %d\n", (int)slot->kind,
                slot->bytes, code);
    expect(was != 0 || failed, "what was served without the library is refused");
    expect(code == was || (failed && (code == made_code || code == NO_MEMORY)),
           "another error than without the library, that nobody made");
}

static void request(struct slot *slot, enum kind kind, size_t bytes)
{
    bool failed;
    int code, was;

    if (kind == PHYSICAL)
        bytes = (bytes + 2 * APP_MIB - 1) / (2 * APP_MIB) * (2 * APP_MIB);
    slot->kind = kind;
    slot->bytes = bytes;
    number++;
    (void)device_failed();
    was = code = take(slot);
    failed = device_failed();
#if APP_RUNTIME
    (void)cudaGetLastError();
#endif
    if (before) {
        was = answer_before(slot);
        judge(slot, was, code, failed);
    } else {
        printf("request %ld kind %d bytes %zu answer %d\n", number, (int)kind, bytes,
               code);
    }
    slot->taken = was == 0;
    slot->used = code == 0;
    if (slot->taken && is_of_device(kind))
        held += bytes;
    if (slot->used)
        use(slot);
    if (slot->used && !slot->taken)
        give(slot);
}

static size_t draw_bytes(bool full)
{
    static const size_t sizes[] = {2, 4, 6, 8, 14};

    if (full)
        return sizes[draw(APP_COUNT(sizes))] * APP_MIB;
    switch (draw(8)) {
    case 0:
        return 1 + draw(5 * APP_MIB);
    case 1:
    case 2:
        return 1 + draw(300000);
    default:
        return 1 + draw(9000);
    }
}

static enum kind draw_kind(bool full)
{
    if (draw(2))
        return DEVICE;
    return (enum kind)draw(full ? MANAGED : KINDS);
}

static void run(bool full, long steps)
{
    for (long i = 0; i < steps; i++) {
        struct slot *slot = &slots[draw(SLOTS)];
        enum kind kind = draw_kind(full);
        size_t bytes = draw_bytes(full);
        uint64_t chance = draw(40);

        if (slot->taken)
            empty(slot);
        else if (chance == 0)
            request(slot, DEVICE, room + 1);
        else if (chance == 1)
            request(slot, DEVICE, 0);
        else if (full || !is_of_device(kind) || held + bytes + 2 * APP_MIB <= room / 2)
            request(slot, kind, bytes);
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].taken)
            empty(&slots[i]);
}

/* Nothing is left behind: one block may be as large as all that was free. */
static void take_everything(void)
{
    size_t now, total;
    gpu_ptr block;
    int code, tries = 0;

    OK(gpu_sync());
    OK(gpu_mem_info(&now, &total));
    expect(now == room, "not all memory is free again");
    do {
        (void)device_failed();
        code = (int)gpu_malloc(&block, room);
    } while (code != 0 && device_failed() && ++tries < 50);
    if (tries < 50) /* else the driver refuses everything */
        OK(code);
    if (code == 0)
        OK(gpu_free(block));
}

/* ---- a device that fails -------------------------------------------------------------
 */

static void say(const char *what, int code)
{
    printf("refusals: %-40s %d\n", what, code);
}

static void lose(void)
{
    gpu_ptr small, large, more;
    struct slot slot = {.kind = ARRAY, .bytes = 100000};
    size_t now, total;

    APP_OK(gpu_malloc(&small, 1000));
    APP_OK(gpu_malloc(&large, 4 * APP_MIB));
    APP_OK(gpu_malloc(&more, 1000));
    APP_OK(gpu_free(more));
    APP_OK(gpu_malloc(&more, 4 * APP_MIB));
    APP_OK(gpu_free(more));
    say("the call that sees it fail", (int)gpu_stream_sync(streams[0]));
    say("a free", (int)gpu_free(large));
    say("a synchronize", (int)gpu_sync());
    say("a small block", (int)gpu_malloc(&more, 1000));
    say("a large one", (int)gpu_malloc(&more, 4 * APP_MIB));
    say("one of another size", (int)gpu_malloc(&more, 6 * APP_MIB));
    say("managed memory", (int)gpu_malloc_managed(&more, 1000));
    say("stream-ordered memory", (int)gpu_malloc_async(&more, 1000, streams[0]));
    say("an array", take(&slot));
    say("what is free", (int)gpu_mem_info(&now, &total));
    say("another free", (int)gpu_free(small));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "";
    bool full = strcmp(mode, "full") == 0;
    size_t total;

    app_expect(full || strcmp(mode, "roomy") == 0 || strcmp(mode, "lost") == 0,
               "usage: refusals roomy|full|lost SEED [STEPS [FILE]]");
    state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ull + 1;
    if (argc > 4) {
        before = fopen(argv[4], "re");
        app_expect(before != NULL, "FILE cannot be read");
    }
    app_gpu_start();
    app_kernels_load(&kernels);
    for (size_t i = 0; i < APP_COUNT(streams); i++)
        APP_OK(gpu_stream_create(&streams[i]));
    if (strcmp(mode, "lost") == 0) {
        lose();
        return 0;
    }
    APP_OK(gpu_mem_info(&room, &total));
    listen_to_device();
    run(full, argc > 3 ? atol(argv[3]) : 400);
    take_everything();
    stop_listening();
    if (before)
        printf(
            "refusals: %ld requests, %ld refused, %ld failures made, %ld more served\n",
            number, refused, made, served_more);
    for (size_t i = 0; i < APP_COUNT(streams); i++)
        APP_OK(gpu_stream_destroy(streams[i]));
    app_kernels_unload(&kernels);
    app_gpu_stop();
    fprintf(stderr, "refusals: the end\n");
    return 0;
}

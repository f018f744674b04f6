/*
 * capacity.c - how much a small device holds, by plans.   capacity FIRST COUNT [FILE]
 *
 * A plan is drawn from its number: it fills devices with memory of some kinds and sizes
 * until each size was refused, frees a part, fills them with others, from two threads,
 * two contexts of one device, another device and several streams, while work runs or
 * after it. The plans FIRST to FIRST + COUNT - 1 run one after the other on the same
 * devices; each frees all that it has.
 *
 * Without FILE it is printed how many of each size a fill was served until it was
 * refused. FILE is such a list, of a run without the library: then the same requests are
 * made, and none that was served there may be refused here, but for
 * 4 MiB at the end of a fill.
 */
#include <pthread.h>

#include "launch.h"

enum kind { DEVICE, PITCH, ASYNC, POOL, ARRAY, PHYSICAL, NODE, MANAGED, HOST, KINDS };
enum place { FIRST, SECOND, OTHER, PLACES };
enum pattern { ALL, SECONDS, THIRDS, HALF, TCACHE, BACK, BUT_EIGHTHS, PATTERNS };

enum { MAX_BLOCKS = 400000, STREAMS = 3, MAX_SIZES = 3, NO_MEMORY = 2 };

#define PAGE (2 * APP_MIB)
/* Blocks that a thread keeps for its next request may lie where the only room was. */
#define SPARE     (2 * PAGE)
#define MAX_BYTES (40 * APP_MIB)

static const char *const kind_names[KINDS] = {
    "device", "pitch", "async", "pool", "array", "physical", "node", "managed", "host"};
static const char *const place_names[PLACES] = {"", ", second context", ", device 1"};
static const char *const pattern_names[PATTERNS] = {"all",
                                                    "every second",
                                                    "every third",
                                                    "a random half",
                                                    "the older half",
                                                    "the newer half",
                                                    "all but every eighth"};

struct block {
    enum kind kind;
    enum place place;
    int stream; /* of async and pool */
    size_t bytes;
    gpu_ptr ptr; /* of linear memory; physical: where it is mapped */
    void *host;
    CUarray array;
};

struct fill {
    enum place place;
    int stream, sizes;
    enum kind kinds[MAX_SIZES];
    size_t bytes[MAX_SIZES];
    long most; /* requests */
};

struct there {
    CUcontext context;
    int device;
    CUstream streams[STREAMS];
    CUmemoryPool pool;
    struct app_kernels kernels;
};

static struct there places[PLACES];
static struct block *blocks;
static size_t count;
static uint64_t state;
static FILE *before; /* the list of a run without the library, or NULL */
static long plan, shorter;

static uint64_t draw(uint64_t limit)
{
    return app_random(&state) % limit;
}

static void use(enum place place)
{
    APP_OK(CU(cuCtxSetCurrent)(places[place].context));
}

static void sync_all(void)
{
    for (int i = 0; i < PLACES; i++) {
        use((enum place)i);
        APP_OK(gpu_sync());
    }
}

/* ---- allocate and free ---------------------------------------------------------------
 */

static int create_array(struct block *block)
{
    size_t words = (block->bytes + 3) / 4, rows = (words + 16383) / 16384;
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = (words + rows - 1) / rows,
                                   .Height = rows > 1 ? rows : 0,
                                   .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                   .NumChannels = 1};

    return (int)CU(cuArrayCreate)(&block->array, &shape);
}

static int create_physical(struct block *block)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                             .id = places[block->place].device}};
    CUmemGenericAllocationHandle handle;
    int code;

    block->bytes = (block->bytes + PAGE - 1) / PAGE * PAGE;
    code = (int)CU(cuMemCreate)(&handle, block->bytes, &prop, 0);
    if (code != 0)
        return code;
    APP_OK(CU(cuMemAddressReserve)(&block->ptr, block->bytes, 0, 0, 0));
    APP_OK(CU(cuMemMap)(block->ptr, block->bytes, 0, handle, 0));
    APP_OK(CU(cuMemRelease)(handle));
    return 0;
}

/* A graph with a block that outlives it. */
static int take_by_node(struct block *block, CUstream stream)
{
    CUDA_MEM_ALLOC_NODE_PARAMS node = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                   .id = places[block->place].device}},
        .bytesize = block->bytes};
    CUgraphNode made;
    CUgraphExec exec;
    CUgraph graph;
    int code;

    APP_OK(gpu_graph_create(&graph));
    code = (int)gpu_add_alloc(&made, graph, &node);
    if (code == 0)
        code = (int)gpu_instantiate(&exec, graph);
    if (code == 0) {
        code = (int)gpu_graph_launch(exec, stream);
        APP_OK(gpu_stream_sync(stream));
        APP_OK(gpu_exec_destroy(exec));
    }
    block->ptr = node.dptr;
    APP_OK(gpu_graph_destroy(graph));
    return code;
}

static int take(struct block *block)
{
    const struct there *there = &places[block->place];
    size_t pitch;

    switch (block->kind) {
    case DEVICE:
        return (int)gpu_malloc(&block->ptr, block->bytes);
    case PITCH:
        return (int)gpu_malloc_pitch(&block->ptr, &pitch, 512,
                                     (block->bytes + 511) / 512);
    case ASYNC:
        return (int)gpu_malloc_async(&block->ptr, block->bytes,
                                     there->streams[block->stream]);
    case POOL:
        return (int)CU(cuMemAllocFromPoolAsync)(&block->ptr, block->bytes, there->pool,
                                                there->streams[block->stream]);
    case ARRAY:
        return create_array(block);
    case PHYSICAL:
        return create_physical(block);
    case NODE:
        return take_by_node(block, there->streams[block->stream]);
    case MANAGED:
        return (int)gpu_malloc_managed(&block->ptr, block->bytes);
    default:
        return (int)gpu_malloc_host(&block->host, block->bytes);
    }
}

static void give(struct block *block)
{
    switch (block->kind) {
    case ASYNC:
    case POOL:
        APP_OK(gpu_free_async(block->ptr, places[block->place].streams[block->stream]));
        break;
    case ARRAY:
        APP_OK(CU(cuArrayDestroy)(block->array));
        break;
    case PHYSICAL:
        APP_OK(CU(cuMemUnmap)(block->ptr, block->bytes));
        APP_OK(CU(cuMemAddressFree)(block->ptr, block->bytes));
        break;
    case HOST:
        APP_OK(gpu_free_host(block->host));
        break;
    default:
        APP_OK(gpu_free(block->ptr));
    }
}

/* ---- phases --------------------------------------------------------------------------
 */

/* How many of each size were served; in the list less than 0, -1 for none, where it was
 * not refused then. What is left of plans that ended early is passed over. */
static void read_served(long served[MAX_SIZES], bool refused[MAX_SIZES])
{
    char line[256];
    long was = -1;

    do {
        app_expect(fgets(line, sizeof(line), before) != NULL, "the list is too short");
        if (line[0] != '#')
            app_expect(sscanf(line, "plan %ld served %ld %ld %ld", &was, &served[0],
                              &served[1], &served[2]) == 4,
                       "this is no list");
    } while (line[0] == '#' || was < plan);
    app_expect(was == plan, "the list is of other plans");
    for (int i = 0; i < MAX_SIZES; i++) {
        refused[i] = served[i] >= 0;
        served[i] = refused[i] ? served[i] : -served[i] - 1;
    }
}

/* Does the fill hold less than it did without the library? A little less is not said, but
 * the plan ends: what follows would be another. */
static bool is_less(const struct fill *fill, const long served[MAX_SIZES],
                    const long was[MAX_SIZES])
{
    size_t missing = 0;

    for (int i = 0; i < fill->sizes; i++)
        if (was[i] > served[i])
            missing += (size_t)(was[i] - served[i]) * fill->bytes[i];
    if (missing <= SPARE)
        return missing > 0;
    printf("capacity: plan %ld holds %zu bytes less%s:", plan, missing,
           place_names[fill->place]);
    for (int i = 0; i < fill->sizes; i++)
        printf(" %ld of %ld %s of %zu", served[i], was[i], kind_names[fill->kinds[i]],
               fill->bytes[i]);
    printf("\n");
    shorter++;
    return true;
}

/* The sizes in turn, each until it is refused. False: it holds less than it did. */
static bool run_fill(const struct fill *fill)
{
    long served[MAX_SIZES] = {0}, was[MAX_SIZES];
    bool refused[MAX_SIZES] = {false}, was_refused[MAX_SIZES];
    int left = fill->sizes;

    if (before)
        read_served(was, was_refused);
    use(fill->place);
    for (long made = 0; left > 0 && made < fill->most; made++) {
        struct block *block = &blocks[count];
        int i = (int)(made % fill->sizes), code;

        if (refused[i])
            continue;
        app_expect(count < MAX_BLOCKS, "more blocks than there is room for");
        *block = (struct block){.kind = fill->kinds[i],
                                .place = fill->place,
                                .stream = fill->stream,
                                .bytes = fill->bytes[i]};
        code = take(block);
        app_expect(code == 0 || code == NO_MEMORY, "an allocation fails");
        if (before && code == 0 && was_refused[i] && served[i] == was[i]) {
            give(block);
            code = NO_MEMORY;
        }
        count += code == 0;
        served[i] += code == 0;
        refused[i] = code != 0;
        left -= code != 0;
    }
    if (before)
        return !is_less(fill, served, was);
    for (int i = 0; i < MAX_SIZES; i++)
        served[i] = refused[i] ? served[i] : -served[i] - 1;
    printf("plan %ld served %ld %ld %ld\n", plan, served[0], served[1], served[2]);
    return true;
}

static bool is_chosen(enum pattern pattern, size_t i, size_t all)
{
    switch (pattern) {
    case ALL:
        return true;
    case SECONDS:
        return i % 2 == 0;
    case THIRDS:
        return i % 3 == 0;
    case HALF:
        return ((i + (size_t)plan) * 2654435761u >> 16) % 2 == 0; /* nothing is drawn */
    case TCACHE:
        return i < all / 2;
    case BACK:
        return i >= all / 2;
    default:
        return i % 8 != 0;
    }
}

static void run_free(enum pattern pattern)
{
    size_t kept = 0, all = count;

    for (size_t i = 0; i < all; i++) {
        if (is_chosen(pattern, i, all)) {
            use(blocks[i].place);
            give(&blocks[i]);
        } else {
            blocks[kept++] = blocks[i];
        }
    }
    count = kept;
}

static void end_frees(void)
{
    sync_all();
    for (int device = 0; device < 2; device++)
        APP_OK(CU(cuDeviceGraphMemTrim)(device));
}

/* ---- the second thread ---------------------------------------------------------------
 */

struct step {
    const struct fill *fill; /* or NULL: free */
    enum pattern pattern;
    bool served;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct step *wanted; /* lock */
static bool ended;          /* lock */

static void run_step(struct step *step)
{
    step->served = true;
    if (step->fill)
        step->served = run_fill(step->fill);
    else
        run_free(step->pattern);
}

static void *second_thread(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!ended) {
        if (wanted) {
            run_step(wanted);
            wanted = NULL;
            pthread_cond_broadcast(&changed);
        } else {
            pthread_cond_wait(&changed, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

static void run_elsewhere(struct step *step)
{
    pthread_mutex_lock(&lock);
    wanted = step;
    pthread_cond_broadcast(&changed);
    while (wanted)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static bool run(struct step step, bool elsewhere)
{
    if (elsewhere)
        run_elsewhere(&step);
    else
        run_step(&step);
    return step.served;
}

/* ---- plans ---------------------------------------------------------------------------
 */

static size_t draw_bytes(void)
{
    static const size_t edges[] = {4096,         65536,       APP_MIB,     2 * APP_MIB,
                                   20 * APP_MIB, 2 * APP_MIB, 4 * APP_MIB, 32768};
    static const long beside[] = {0, 0, 1, -1, 512, -512, 4096, 511};
    size_t bytes;

    switch (draw(8)) {
    case 0:
        bytes = (size_t)1 << (draw(8) ? 11 + draw(15) : draw(11));
        break;
    case 1:
    case 2:
        bytes = edges[draw(APP_COUNT(edges))];
        break;
    case 3:
        bytes = 1 + draw(APP_MIB);
        break;
    case 4:
        bytes = 1 + draw(20 * APP_MIB);
        break;
    case 5:
        bytes = PAGE * (1 + draw(MAX_BYTES / PAGE));
        break;
    case 6:
        bytes = 1 + draw(4 * APP_MIB);
        break;
    default:
        bytes = 512 * (8 + draw(2 * APP_MIB / 512));
        break;
    }
    bytes += (size_t)beside[draw(APP_COUNT(beside))];
    return bytes - 1 < MAX_BYTES ? bytes : 1;
}

static enum kind draw_kind(void)
{
    return draw(3) ? DEVICE : (enum kind)draw(KINDS);
}

static struct fill draw_fill(int sizes)
{
    struct fill fill = {.place = draw(4) ? FIRST : (enum place)draw(PLACES),
                        .stream = (int)draw(STREAMS),
                        .sizes = sizes,
                        .most = MAX_BLOCKS};
    enum kind kind = draw_kind();

    for (int i = 0; i < sizes; i++) {
        fill.kinds[i] = draw(3) ? kind : draw_kind();
        fill.bytes[i] = draw_bytes();
        if (fill.kinds[i] >= MANAGED) /* which no device refuses */
            fill.most = 1 + (long)draw(20);
        if (fill.kinds[i] == NODE && fill.bytes[i] < APP_MIB)
            fill.bytes[i] += APP_MIB;
        /* Natively small arrays and pitched memory lie among the small blocks, and which
         * chunks are left to a mixture is luck. */
        if (fill.bytes[i] < PAGE &&
            (i > 0 || fill.kinds[i] == ARRAY || fill.kinds[i] == PITCH))
            fill.bytes[i] += PAGE;
    }
    if (fill.most == MAX_BLOCKS && draw(4) == 0)
        fill.most = 1 + (long)draw(60);
    return fill;
}

static void say_fill(const struct fill *fill, bool elsewhere)
{
    printf("#   fill");
    for (int i = 0; i < fill->sizes; i++)
        printf(" %s %zu", kind_names[fill->kinds[i]], fill->bytes[i]);
    if (fill->most < MAX_BLOCKS)
        printf(", %ld at most", fill->most);
    printf("%s, stream %d%s\n", place_names[fill->place], fill->stream,
           elsewhere ? ", second thread" : "");
}

/* Work that runs for a while, in a stream of each place or of one. */
static void draw_work(void)
{
    enum place place = (enum place)draw(PLACES);
    int stream = (int)draw(STREAMS);
    uint64_t ms = draw(8);

    if (draw(4) != 0)
        return;
    if (!before)
        printf("#   %u ms of work%s\n", (unsigned)ms, place_names[place]);
    use(place);
    app_spin(&places[place].kernels, ms * 1000000, places[place].streams[stream]);
}

struct mood {
    bool threads, works; /* a second thread; work runs */
};

static bool fill_up(int sizes, const struct mood *mood)
{
    struct fill fill = draw_fill(sizes);
    bool elsewhere = mood->threads && draw(2);

    if (!before)
        say_fill(&fill, elsewhere);
    if (mood->works)
        draw_work();
    return run((struct step){.fill = &fill}, elsewhere);
}

static void free_some(enum pattern pattern, const struct mood *mood)
{
    bool elsewhere = mood->threads && draw(2);

    if (!before)
        printf("#   free %s%s\n", pattern_names[pattern],
               elsewhere ? ", second thread" : "");
    (void)run((struct step){.pattern = pattern}, elsewhere);
    end_frees();
}

/*
 * Rounds of a fill of one size, a part of it freed, and fills of several sizes; all is
 * freed in between. More is not compared: of a mixture that was freed in part it is luck
 * which chunks are empty, natively too.
 */
static void run_plan(void)
{
    const struct mood mood = {.threads = draw(3) == 0, .works = draw(3) == 0};
    int rounds = 1 + (int)draw(3);
    bool served = true;

    if (!before)
        printf("# plan %ld\n", plan);
    for (int i = 0; i < rounds && served; i++) {
        int fills = 1 + (int)draw(2);

        if (draw(3) != 0) {
            served = fill_up(1, &mood);
            free_some((enum pattern)draw(PATTERNS), &mood);
        }
        for (int j = 0; j < fills && served; j++)
            served = fill_up(1 + (int)draw(MAX_SIZES), &mood);
        free_some(ALL, &mood);
    }
}

/* ---- the program ---------------------------------------------------------------------
 */

static void start(void)
{
    int devices;

    APP_OK(CU(cuInit)(0));
    APP_OK(CU(cuDeviceGetCount)(&devices));
    app_expect(devices >= 2, "there is one device");
    for (int i = 0; i < PLACES; i++) {
        struct there *there = &places[i];

        there->device = i == OTHER;
        if (i == SECOND)
#if CUDA_VERSION >= 13000
            APP_OK(CU(cuCtxCreate)(&there->context, NULL, 0, there->device));
#else
            APP_OK(CU(cuCtxCreate)(&there->context, 0, there->device));
#endif
        else
            APP_OK(CU(cuDevicePrimaryCtxRetain)(&there->context, there->device));
        use((enum place)i);
        for (int j = 0; j < STREAMS; j++)
            APP_OK(gpu_stream_create(&there->streams[j]));
        APP_OK(CU(cuDeviceGetDefaultMemPool)(&there->pool, there->device));
        app_kernels_load(&there->kernels);
    }
}

static void stop(void)
{
    for (int i = 0; i < PLACES; i++) {
        use((enum place)i);
        app_kernels_unload(&places[i].kernels);
        for (int j = 0; j < STREAMS; j++)
            APP_OK(gpu_stream_destroy(places[i].streams[j]));
    }
    APP_OK(CU(cuCtxDestroy)(places[SECOND].context));
    APP_OK(CU(cuDevicePrimaryCtxRelease)(0));
    APP_OK(CU(cuDevicePrimaryCtxRelease)(1));
}

int main(int argc, char **argv)
{
    pthread_t thread;

    app_expect(argc > 2, "usage: capacity FIRST COUNT [FILE]");
    if (argc > 3) {
        before = fopen(argv[3], "re");
        app_expect(before != NULL, "FILE cannot be read");
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    blocks = app_host_memory(MAX_BLOCKS * sizeof(*blocks));
    start();
    APP_OK(pthread_create(&thread, NULL, second_thread, NULL));
    for (long i = 0; i < atol(argv[2]); i++) {
        plan = atol(argv[1]) + i;
        state = (uint64_t)plan * 0x9e3779b97f4a7c15ull + 1;
        run_plan();
    }
    pthread_mutex_lock(&lock);
    ended = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    APP_OK(pthread_join(thread, NULL));
    stop();
    if (before)
        printf("capacity: %ld plans, %ld hold less\n", atol(argv[2]), shorter);
    free(blocks);
    if (before)
        fclose(before);
    return shorter > 0;
}

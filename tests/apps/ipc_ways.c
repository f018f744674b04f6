/*
 * ipc_ways.c - blocks of all sizes, exported in the way of several libraries, opened,
 * read and written by another process.   ipc_ways WAY
 *
 * Proves that each handle leads to its own block's data, by whatever arithmetic, that
 * several are open at once and end one by one, and that what an importer writes reaches
 * the block and no neighbour of it.
 *
 *   direct     the handle of the block, used as the block
 *   inside     the handle of an address inside it: natively that of the whole block
 *   asked      of an address inside; then the range around it, and the offset in that
 * (UCX, Open MPI) base       the range first; the handle of its base, and the offset
 * (NCCL) attribute  the same by cuPointerGetAttribute (vLLM) attributes the same by
 * cuPointerGetAttributes twice      direct, each opened and closed twice old        the
 * same by the functions of CUDA 4.1: the second open is refused
 */

#include "peer.h"
#include "share.h"

enum { ROUNDS = 2, LATER = 1, NOTHING = -1 };

static const size_t sizes[] = {1000, 4096, 40000, 64 * APP_KIB, 700001, 3 * APP_MIB};

enum { BLOCKS = ROUNDS * 6 + LATER };

struct offer {
    int code; /* of the export */
    size_t bytes;
    size_t offset;
    CUipcMemHandle handle;
};

struct outcome {
    int opened, again, closed, late; /* codes; NOTHING: not called */
    int right;                       /* the data */
};

struct question {
    bool twice;
    int seed;
    struct offer offers[BLOCKS];
};

struct report {
    struct outcome outcomes[BLOCKS];
};

static bool old; /* by the open of CUDA 4.1 */

static int open_handle(CUdeviceptr *out, CUipcMemHandle handle)
{
    return old ? app_share_open_old(out, handle) : app_share_open(out, handle);
}

/* ---- the importer ------------------------------------------------------------------ */

static void open_all(const struct question *question, CUdeviceptr *opened,
                     struct report *report)
{
    for (int i = 0; i < BLOCKS; i++) {
        const struct offer *offer = &question->offers[i];
        struct outcome *outcome = &report->outcomes[i];
        CUdeviceptr again = 0;

        *outcome = (struct outcome){NOTHING, NOTHING, NOTHING, NOTHING, NOTHING};
        if (offer->code != 0)
            continue;
        outcome->opened = open_handle(&opened[i], offer->handle);
        if (outcome->opened == 0 && question->twice) {
            outcome->again = open_handle(&again, offer->handle);
            app_expect(outcome->again != 0 || again == opened[i], "the same address");
        }
    }
}

/* The range around an opened block is what its exporter asked for. */
static bool spans(CUdeviceptr opened, const struct offer *offer)
{
    CUdeviceptr base, start;
    size_t bytes;

    APP_OK(CU(cuMemGetAddressRange)(&base, &bytes, opened + offer->bytes / 2));
    APP_OK(
        CU(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, opened));
    return base == opened && start == opened && bytes >= offer->bytes;
}

/* Those of one parity are closed; the others still hold what they held. */
static void close_parity(const struct question *question, const CUdeviceptr *opened,
                         struct report *report, int parity)
{
    for (int i = parity; i < BLOCKS; i += 2) {
        struct outcome *outcome = &report->outcomes[i];

        if (outcome->opened != 0)
            continue;
        if (outcome->again == 0)
            APP_OK(CU(cuIpcCloseMemHandle)(opened[i]));
        outcome->closed = (int)CU(cuIpcCloseMemHandle)(opened[i]);
    }
    for (int i = !parity; i < BLOCKS; i += 2) {
        const struct offer *offer = &question->offers[i];
        const struct outcome *outcome = &report->outcomes[i];

        if (outcome->opened == 0 && outcome->closed == NOTHING)
            app_expect(app_share_holds(opened[i] + offer->offset, offer->bytes,
                                       (uint32_t)(question->seed + i) + 100),
                       "an open block after others were closed");
    }
}

static void import_all(const struct app_peer *peer)
{
    static struct question question;
    CUdeviceptr opened[BLOCKS] = {0};
    struct report report;

    app_peer_receive(peer, &question, sizeof(question));
    open_all(&question, opened, &report);
    for (int i = 0; i < BLOCKS; i++) {
        const struct offer *offer = &question.offers[i];
        struct outcome *outcome = &report.outcomes[i];

        if (outcome->opened != 0)
            continue;
        outcome->right = app_share_holds(opened[i] + offer->offset, offer->bytes,
                                         (uint32_t)(question.seed + i)) &&
                         spans(opened[i], offer);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (report.outcomes[i].opened == 0)
            app_share_put(opened[i] + question.offers[i].offset, question.offers[i].bytes,
                          (uint32_t)(question.seed + i) + 100);
    close_parity(&question, opened, &report, 0);
    close_parity(&question, opened, &report, 1);
    for (int i = 0; i < BLOCKS; i++)
        if (report.outcomes[i].opened == 0)
            report.outcomes[i].late = (int)CU(cuIpcCloseMemHandle)(opened[i]);
    app_peer_send(peer, &report, sizeof(report), -1);
}

/* ---- the exporter ------------------------------------------------------------------ */

static int export_at(CUdeviceptr address, struct offer *offer)
{
    offer->code = (int)CU(cuIpcGetMemHandle)(&offer->handle, address);
    return offer->code;
}

static CUdeviceptr range_of(const char *way, CUdeviceptr address)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    CUdeviceptr base = 0;
    unsigned type = 0;
    void *out[] = {&base, &type};
    size_t bytes;

    if (strcmp(way, "attribute") == 0)
        APP_OK(CU(cuPointerGetAttribute)(&base, which[0], address));
    else if (strcmp(way, "attributes") == 0)
        APP_OK(CU(cuPointerGetAttributes)(2, which, out, address));
    else
        APP_OK(CU(cuMemGetAddressRange)(&base, &bytes, address));
    return base;
}

static void export_block(const char *way, CUdeviceptr block, struct offer *offer)
{
    CUdeviceptr inside = block + offer->bytes / 2 / 512 * 512;

    offer->offset = 0;
    if (strcmp(way, "direct") == 0 || strcmp(way, "twice") == 0 ||
        strcmp(way, "old") == 0) {
        export_at(block, offer);
    } else if (strcmp(way, "inside") == 0) {
        export_at(inside, offer);
    } else if (strcmp(way, "asked") == 0) {
        if (export_at(inside, offer) == 0)
            offer->offset = block - range_of(way, inside);
    } else {
        CUdeviceptr base = range_of(way, inside);

        export_at(base, offer);
        offer->offset = block - base;
    }
}

static void allocate(gpu_ptr *out, size_t bytes, uint32_t seed)
{
    gpu_ptr decoy;

    APP_OK(gpu_malloc(&decoy, bytes));
    APP_OK(gpu_malloc(out, bytes));
    APP_OK(gpu_free(decoy));
    app_share_put(gpu_address(*out), bytes, seed);
}

static void print_outcome(const struct offer *offer, const struct outcome *outcome,
                          bool written)
{
    printf("%zu bytes: export %d, open %d, again %d, data %s, close %d, late close %s, "
           "written %s\n",
           offer->bytes, offer->code, outcome->opened, outcome->again,
           outcome->right == NOTHING ? "-"
           : outcome->right          ? "right"
                                     : "wrong",
           outcome->closed,
           outcome->late == NOTHING ? "-"
           : outcome->late          ? "refused"
                                    : "taken",
           outcome->opened == 0 ? written ? "yes" : "no" : "-");
}

/* A block that was not opened is what it was, one that was is what the other wrote. */
static bool is_as_written(gpu_ptr block, size_t bytes, uint32_t seed, bool opened)
{
    return app_share_holds(gpu_address(block), bytes, opened ? seed + 100 : seed);
}

static void export_all(const char *way, const struct app_peer *peer, int seed)
{
    static struct question question;
    struct report report;
    gpu_ptr blocks[BLOCKS];

    question.twice = strcmp(way, "twice") == 0 || strcmp(way, "old") == 0;
    question.seed = seed;
    for (int i = 0; i < BLOCKS; i++)
        question.offers[i].bytes = sizes[i % (int)APP_COUNT(sizes)];
    for (int i = 0; i < BLOCKS - LATER; i++)
        allocate(&blocks[i], question.offers[i].bytes, (uint32_t)(seed + i));
    for (int i = 0; i < BLOCKS; i++) {
        if (i >= BLOCKS - LATER) /* after others were exported */
            allocate(&blocks[i], question.offers[i].bytes, (uint32_t)(seed + i));
        export_block(way, gpu_address(blocks[i]), &question.offers[i]);
    }
    app_peer_send(peer, &question, sizeof(question), -1);
    app_peer_receive(peer, &report, sizeof(report));
    for (int i = 0; i < BLOCKS; i++) {
        const struct outcome *outcome = &report.outcomes[i];
        bool written = is_as_written(blocks[i], question.offers[i].bytes,
                                     (uint32_t)(seed + i), outcome->opened == 0);

        print_outcome(&question.offers[i], outcome, written);
        app_expect(written && outcome->right != 0, "a block's data");
    }
    for (int i = 0; i < BLOCKS; i++)
        APP_OK(gpu_free(blocks[i]));
}

int main(int argc, char **argv)
{
    struct app_peer peer;
    bool imports = app_peer_is(argc, argv, &peer);
    const char *way = argc < 2 ? "" : argv[argc - 1];

    if (!imports)
        app_peer_start(argv, &peer);
    app_gpu_start();
    old = strcmp(way, "old") == 0;
    for (int i = 0; i < 2; i++) {
        if (imports)
            import_all(&peer);
        else
            export_all(way, &peer, 40 * i);
    }
    if (!imports)
        app_expect(app_peer_end(&peer), "end of the other process");
    app_gpu_stop();
    return 0;
}

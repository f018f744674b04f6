/*
 * release.c - gives the pages of a scope's allocations to the device, and brings them
 * back.
 *
 * One thread at a time. All steps that may fail come first: the wait for the work, the
 * copies on the host, and when they come back the new pages. Between the two the blocks
 * are claimed, so no copy and no free of the program reaches them.
 *
 * Owns:  nothing.   Lock: none; `busy` is atomic.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "shim/heaps/moving_pages.h"
#include "shim/heaps/releasable_items.h"
#include "shim/heaps/retry.h"
#include "shim/order/captures.h"
#include "shim/order/context_wait.h"
#include "shim/order/own_handles.h"
#include "shim/order/visit.h"

static bool busy; /* a thread releases or resumes */

/* The allocations that move. */
struct move {
    struct gs_releasable **items;
    size_t count;
};

/* Takes the allocations of these names in the state `from`. end_move() follows if that is
 * GS_OK. */
static enum gs_status begin_move(struct gs_state *state, uint32_t bits,
                                 enum gs_releasable_state from, struct move *out,
                                 struct gs_release_sum *sum)
{
    if (!bits) {
        return GS_ERR_NOT_FOUND;
    }
    if (gs_captures_active() || __atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE)) {
        return GS_ERR_TIMEOUT;
    }
    enum gs_status status =
        gs_releasable_take(state, bits, from, &out->items, &out->count, sum);
    if (status != GS_OK) {
        __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
    }
    return status;
}

/* Ends the move: the allocations are in this state now. */
static void end_move(const struct move *move, enum gs_releasable_state state)
{
    gs_releasable_settle(move->items, move->count, state);
    __atomic_store_n(&busy, false, __ATOMIC_RELEASE);
}

/* ---- contents ---------------------------------------------------------------------- */

/* Waits for the work of every context, by its own code. */
static enum gs_status wait_for_work(struct gs_state *state, const struct move *move)
{
    const struct gs_context *last = NULL;
    CUresult result = CUDA_SUCCESS;
    bool in_use; /* by contexts of other devices, which cannot reach these pages */
    for (size_t i = 0; i < move->count && result == CUDA_SUCCESS; i++) {
        if (move->items[i]->context != last) {
            last = move->items[i]->context;
            gs_notify_begin("gpushim_release", true); /* the program relies on it */
            result = gs_context_wait(state, last, &in_use);
            gs_notify_end();
        }
    }
    return result == CUDA_SUCCESS ? GS_OK
           : gs_captures_active() ? GS_ERR_TIMEOUT
                                  : GS_ERR_BACKEND;
}

static CUresult copy_one(const struct gs_releasable *item, bool to_host, CUstream stream)
{
    const struct gs_real *real = gs_real();
    if (!item->copy) {
        return CUDA_SUCCESS;
    }
    return to_host ? real->cuMemcpyDtoHAsync_v2(item->copy, item->addr, item->requested,
                                                stream)
                   : real->cuMemcpyHtoDAsync_v2(item->addr, item->copy, item->requested,
                                                stream);
}

/* Copies the allocations from `first` on that have its context, in a stream of the
 * library's own. Out: *next  the first that does not */
static CUresult copy_some(const struct move *move, size_t first, bool to_host,
                          size_t *next)
{
    const struct gs_context *context = move->items[first]->context;
    struct gs_visit visit;
    CUstream stream = NULL;
    CUresult result = gs_visit_begin(
        &visit, to_host ? "gpushim_release" : "gpushim_resume", context->handle, true);
    if (result == CUDA_SUCCESS) {
        result = gs_own_stream_create(&stream, CU_STREAM_NON_BLOCKING);
    }
    for (; first < move->count && move->items[first]->context == context; first++) {
        if (result == CUDA_SUCCESS) {
            result = copy_one(move->items[first], to_host, stream);
        }
    }
    if (stream) {
        CUresult waited = gs_real()->cuStreamSynchronize(stream);
        result = result == CUDA_SUCCESS ? waited : result;
        (void)gs_real()->cuStreamDestroy_v2(stream);
    }
    gs_visit_end(&visit);
    *next = first;
    return result;
}

static enum gs_status copy_all(const struct move *move, bool to_host)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < move->count && result == CUDA_SUCCESS;) {
        result = copy_some(move, i, to_host, &i);
    }
    return result == CUDA_SUCCESS ? GS_OK : GS_ERR_BACKEND;
}

static void drop_copies(const struct move *move)
{
    for (size_t i = 0; i < move->count; i++) {
        gs_releasable_drop_copy(move->items[i]);
    }
}

/* Memory of the host for each allocation. What cannot be pinned is plain. */
static enum gs_status make_copies(const struct move *move, enum gs_keep keep)
{
    for (size_t i = 0; keep != GS_KEEP_NOTHING && i < move->count; i++) {
        struct gs_releasable *item = move->items[i];
        struct gs_visit visit;
        void *copy = mmap(NULL, item->bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (copy == MAP_FAILED) {
            return GS_ERR_HOST_NOMEM;
        }
        item->copy = copy;
        CUresult result =
            gs_visit_begin(&visit, "gpushim_release", item->context->handle, true);
        item->pinned =
            keep == GS_KEEP_PINNED && result == CUDA_SUCCESS &&
            gs_real()->cuMemHostRegister_v2(copy, item->bytes, 0) == CUDA_SUCCESS;
        gs_visit_end(&visit);
    }
    return GS_OK;
}

/* ---- release ----------------------------------------------------------------------- */

static void add_to_sum(struct gs_release_sum *sum, const struct gs_releasable *item)
{
    sum->count++;
    sum->bytes += item->requested;
    sum->device_bytes += item->bytes;
}

static void empty_all(const struct move *move, struct gs_release_sum *sum)
{
    for (size_t i = 0; i < move->count; i++) {
        const struct gs_releasable *item = move->items[i];
        if (gs_notified()) {
            gs_notify_take_back(GS_API_cuMemFree_v2, item->addr);
        }
        gs_moving_pages_empty(item->context, item->addr, item->bytes);
        gs_block_set_absent(item->block, true);
        add_to_sum(sum, item);
    }
}

enum gs_status gs_release(struct gs_state *state, const char *name, enum gs_keep keep,
                          struct gs_release_sum *out)
{
    uint32_t bits = gs_releasable_name(name);
    struct gs_release_sum sum = {0};
    struct move move;
    enum gs_status status = begin_move(state, bits, GS_RELEASABLE_PRESENT, &move, &sum);
    if (status != GS_OK) {
        return status;
    }
    status = wait_for_work(state, &move);
    if (status == GS_OK) {
        status = make_copies(&move, keep);
    }
    if (status == GS_OK) {
        status = copy_all(&move, true);
    }
    if (status == GS_OK) {
        empty_all(&move, &sum);
        sum.host_bytes = gs_releasable_copied(bits);
        *out = sum;
    } else {
        drop_copies(&move);
    }
    end_move(&move, status == GS_OK ? GS_RELEASABLE_AWAY : GS_RELEASABLE_PRESENT);
    return status;
}

/* ---- resume ------------------------------------------------------------------------ */

static enum gs_status fill_one(struct gs_state *state, const struct gs_releasable *item)
{
    enum gs_status status = gs_moving_pages_fill(item->context, item->addr, item->bytes);
    for (unsigned round = 0;
         status == GS_ERR_NOMEM && round < GS_RETRY_ROUNDS &&
         gs_retry(state, item->context, item->context->device, item->bytes);
         round++) {
        status = gs_moving_pages_fill(item->context, item->addr, item->bytes);
    }
    return status;
}

/* The first `count` give their pages back. */
static void return_pages(const struct move *move, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct gs_releasable *item = move->items[i];
        gs_moving_pages_empty(item->context, item->addr, item->bytes);
    }
}

/* Gets pages and contents for all, or nothing for any: the copies stay then. */
static enum gs_status fill_all(struct gs_state *state, const struct move *move)
{
    enum gs_status status = GS_OK;
    size_t done = 0;
    while (done < move->count && (status = fill_one(state, move->items[done])) == GS_OK) {
        done++;
    }
    if (status == GS_OK) {
        status = copy_all(move, false);
    }
    if (status != GS_OK) {
        return_pages(move, done);
    }
    return status == GS_ERR_UNPOOLABLE ? GS_ERR_BACKEND : status;
}

/* The allocations are the program's again. */
static void finish_move(const struct move *move, struct gs_release_sum *sum)
{
    for (size_t i = 0; i < move->count; i++) {
        const struct gs_releasable *item = move->items[i];
        gs_block_set_absent(item->block, false);
        if (gs_notified()) {
            gs_notify_hand_out(GS_API_cuMemAlloc_v2, item->addr, item->requested, NULL,
                               false);
        }
        add_to_sum(sum, item);
    }
    drop_copies(move);
}

enum gs_status gs_resume(struct gs_state *state, const char *name,
                         struct gs_release_sum *out)
{
    uint32_t bits = gs_releasable_name(name);
    struct gs_release_sum sum = {0};
    struct move move;
    enum gs_status status = begin_move(state, bits, GS_RELEASABLE_AWAY, &move, &sum);
    if (status != GS_OK) {
        return status;
    }
    status = fill_all(state, &move);
    if (status == GS_OK) {
        finish_move(&move, &sum);
        sum.host_bytes = gs_releasable_copied(bits);
        *out = sum;
    }
    end_move(&move, status == GS_OK ? GS_RELEASABLE_PRESENT : GS_RELEASABLE_AWAY);
    return status;
}

/*
 * do_work.c - copies, sets and kernels; streams and events.
 */
#include <string.h>

#include "do.h"

/* ---- copies and sets ----------------------------------------------------------------
 */

static void wrote(struct diff_call *call, const struct diff_use *use, CUresult code,
                  struct diff_memory *memory, struct diff_part part)
{
    if (diff_used(call, use, diff_code(call, "code", code), memory, NULL))
        diff_define(diff_contents(call->world, memory), part);
}

void diff_do_set(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;
    struct diff_use use;

    if (!memory || !diff_use_default(call, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    use.empty = part.bytes == 0;
    wrote(call, &use,
          CU(cuMemsetD8)(memory->at + part.at, (unsigned char)call->op->args[2],
                         part.bytes),
          memory, part);
}

void diff_do_copy_in(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;
    struct diff_use use;

    if (!memory || !diff_use_default(call, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    use.empty = part.bytes == 0;
    wrote(call, &use,
          CU(cuMemcpyHtoD)(memory->at + part.at,
                           diff_bytes(part.bytes, call->op->args[2]), part.bytes),
          memory, part);
}

void diff_do_copy_out(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    unsigned char *bytes = diff_bytes(0, 0);
    struct diff_part part;
    struct diff_use use;

    if (!memory || !diff_use_default(call, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    use.empty = part.bytes == 0;
    if (!diff_used(call, &use,
                   diff_code(call, "code",
                             CU(cuMemcpyDtoH)(bytes, memory->at + part.at, part.bytes)),
                   memory, NULL))
        return;
    if (part.bytes > 0) /* a copy of nothing waits for nothing */
        diff_host_waited(call->world, use.line);
    diff_say(
        call, " hash=%llx",
        (unsigned long long)diff_hash(diff_contents(call->world, memory), part, bytes));
}

/* The same part of both, as far as both have it. */
static bool two(struct diff_call *call, struct diff_memory **to,
                struct diff_memory **from, struct diff_part *part)
{
    *to = diff_memory_of(call, 0);
    *from = *to ? diff_memory_of(call, 1) : NULL;
    if (!*from)
        return false;
    if (*to == *from || (*to)->kind == 'i' || (*from)->kind == 'i') {
        diff_skip(call, "pair");
        return false;
    }
    *part = diff_part_of((*to)->bytes < (*from)->bytes ? *to : *from, call->op->args[2]);
    return true;
}

static void copied(struct diff_call *call, struct diff_use *use, CUresult code,
                   struct diff_memory *to, struct diff_memory *from,
                   struct diff_part part)
{
    use->empty = part.bytes == 0;
    if (!diff_used(call, use, diff_code(call, "code", code), to, from))
        return;
    if (diff_defined(from, part))
        diff_define(to, part);
    else
        diff_undefine(to, part);
}

void diff_do_copy(struct diff_call *call)
{
    struct diff_memory *to, *from;
    struct diff_part part;
    struct diff_use use;

    if (two(call, &to, &from, &part) && diff_use_default(call, to, from, &use))
        copied(call, &use,
               CU(cuMemcpyDtoD)(to->at + part.at, from->at + part.at, part.bytes), to,
               from, part);
}

void diff_do_copy_async(struct diff_call *call)
{
    struct diff_memory *to, *from;
    struct diff_part part;
    struct diff_use use;

    if (two(call, &to, &from, &part) && diff_use_stream(call, 3, to, from, &use))
        copied(call, &use,
               CU(cuMemcpyAsync)(to->at + part.at, from->at + part.at, part.bytes,
                                 use.stream),
               to, from, part);
}

/* Stream-ordered memory outlives its context. */
static bool context_lives(struct diff_call *call, const struct diff_memory *memory)
{
    if (memory->ctx < DIFF_CONTEXTS &&
        call->world->slots[DIFF_CTX][memory->ctx].state == DIFF_LIVE)
        return true;
    diff_skip(call, "context");
    return false;
}

void diff_do_peer_copy(struct diff_call *call)
{
    struct diff_memory *to, *from;
    struct diff_part part;
    struct diff_use use;

    if (two(call, &to, &from, &part) && context_lives(call, to) &&
        context_lives(call, from) && diff_use_stream(call, 3, to, from, &use))
        copied(call, &use,
               CU(cuMemcpyPeerAsync)(
                   to->at + part.at,
                   (CUcontext)(uintptr_t)call->world->slots[DIFF_CTX][to->ctx].value,
                   from->at + part.at,
                   (CUcontext)(uintptr_t)call->world->slots[DIFF_CTX][from->ctx].value,
                   part.bytes, use.stream),
               to, from, part);
}

void diff_do_set_async(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;
    struct diff_use use;

    if (!memory || !diff_use_stream(call, 3, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    use.empty = part.bytes == 0;
    wrote(call, &use,
          CU(cuMemsetD8Async)(memory->at + part.at, (unsigned char)call->op->args[2],
                              part.bytes, use.stream),
          memory, part);
}

void diff_do_set_words(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;
    struct diff_use use;

    if (!memory || !diff_use_stream(call, 3, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    part.bytes &= ~3ull;
    use.empty = part.bytes == 0;
    wrote(call, &use,
          CU(cuMemsetD32Async)(memory->at + part.at, (unsigned)call->op->args[2] * 257,
                               part.bytes / 4, use.stream),
          memory, part);
}

void diff_do_set_2d(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_use use;
    CUresult code;

    if (!memory || memory->kind != 'p' || !diff_use_stream(call, 2, memory, NULL, &use))
        return;
    code =
        CU(cuMemsetD2D8Async)(memory->at, memory->pitch, (unsigned char)call->op->args[1],
                              memory->width, memory->height, use.stream);
    use.empty = memory->width == 0 || memory->height == 0;
    wrote(call, &use, code, memory, (struct diff_part){0, memory->width});
}

void diff_do_copy_in_async(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    struct diff_part part;
    struct diff_use use;

    if (!memory || !diff_use_stream(call, 3, memory, NULL, &use))
        return;
    part = diff_part_of(memory, call->op->args[1]);
    use.empty = part.bytes == 0;
    if (use.captured) { /* it would be read at the launch */
        diff_skip(call, "captured");
        return;
    }
    wrote(call, &use,
          CU(cuMemcpyHtoDAsync)(memory->at + part.at,
                                diff_bytes(part.bytes, call->op->args[2]), part.bytes,
                                use.stream),
          memory, part);
}

/* ---- kernels ------------------------------------------------------------------------
 */

/* A kernel of this context may use it: else the context would break. */
static bool within_reach(struct diff_call *call, const struct diff_memory *memory)
{
    bool host = memory->kind == 'h' || memory->kind == 'g';

    if ((host && memory->process == call->op->process) ||
        ((memory->kind == 'd' || memory->kind == 'p' || memory->kind == 'a') &&
         memory->ctx == call->ctx))
        return true;
    diff_skip(call, "reach");
    return false;
}

/* A stream that kernels of the current context may be launched in. */
static bool own_stream(struct diff_call *call, unsigned argument)
{
    unsigned number = (unsigned)((uint64_t)call->op->args[argument] % DIFF_STREAMS);

    if (number < 3 || call->world->slots[DIFF_STREAM][number].state != DIFF_LIVE ||
        call->world->slots[DIFF_STREAM][number].ctx == call->ctx)
        return true;
    diff_skip(call, "reach");
    return false;
}

static bool launch(struct diff_call *call, const struct diff_use *use, const char *name,
                   void **parameters, struct diff_memory *a, struct diff_memory *b)
{
    CUfunction function = diff_kernel(call, name);

    if (!function) {
        diff_skip(call, "module");
        diff_not_used(call, use);
        return false;
    }
    return diff_used(call, use,
                     diff_code(call, "code",
                               CU(cuLaunchKernel)(function, 1, 1, 1, 32, 1, 1, 0,
                                                  use->stream, parameters, NULL)),
                     a, b);
}

static uint64_t words(const struct diff_memory *memory)
{
    return diff_part_of(memory, 0).bytes / 4;
}

void diff_do_fill(struct diff_call *call)
{
    struct diff_memory *memory = diff_memory_of(call, 0);
    uint32_t seed = (uint32_t)call->op->args[1];
    struct diff_use use;
    uint64_t count;

    if (!memory || !within_reach(call, memory) || !own_stream(call, 2) ||
        !diff_use_stream(call, 2, memory, NULL, &use))
        return;
    count = words(memory);
    if (launch(call, &use, "gs_fill", (void *[]){&memory->at, &count, &seed}, memory,
               NULL))
        diff_define(memory, (struct diff_part){0, count * 4});
}

void diff_do_add(struct diff_call *call)
{
    struct diff_memory *to = diff_memory_of(call, 0);
    struct diff_memory *from = to ? diff_memory_of(call, 1) : NULL;
    struct diff_part part = {0, 0};
    struct diff_use use;
    uint64_t count;

    if (!from || !within_reach(call, to) || !within_reach(call, from) ||
        !own_stream(call, 2) || !diff_use_stream(call, 2, to, from, &use))
        return;
    count = words(to) < words(from) ? words(to) : words(from);
    part.bytes = count * 4;
    if (launch(call, &use, "gs_add", (void *[]){&to->at, &from->at, &count}, to, from) &&
        !(diff_defined(to, part) && diff_defined(from, part)))
        diff_undefine(to, part);
}

void diff_do_spin(struct diff_call *call)
{
    uint64_t ns = 20000 * (uint64_t)call->op->args[0];
    struct diff_use use;

    if (own_stream(call, 1) && diff_use_stream(call, 1, NULL, NULL, &use))
        launch(call, &use, "gs_spin", (void *[]){&ns}, NULL, NULL);
}

static void called(void *count)
{
    (*(unsigned *)count)++;
}

void diff_do_host_function(struct diff_call *call)
{
    static unsigned count;
    struct diff_use use;

    if (diff_use_stream(call, 0, NULL, NULL, &use))
        diff_used(
            call, &use,
            diff_code(call, "code", CU(cuLaunchHostFunc)(use.stream, called, &count)),
            NULL, NULL);
}

/* A kernel that writes where nothing is: the context is broken from then on. */
void diff_do_wild(struct diff_call *call)
{
    uint64_t count = 4;
    uint32_t seed = 0;
    CUdeviceptr nowhere = 4096;
    struct diff_use use;

    if (call->world->captures || !own_stream(call, 0) ||
        !diff_use_stream(call, 0, NULL, NULL, &use))
        return;
    launch(call, &use, "gs_fill", (void *[]){&nowhere, &count, &seed}, NULL, NULL);
    diff_code(call, "wait", CU(cuCtxSynchronize)());
    diff_host_waited_context(call->world, (unsigned)call->ctx);
    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        call->world->memory[i].spans = 0;
}

/* ---- streams and events -------------------------------------------------------------
 */

static unsigned stream_number(const struct diff_call *call, unsigned argument)
{
    return (unsigned)((uint64_t)call->op->args[argument] % DIFF_STREAMS);
}

void diff_do_stream_new(struct diff_call *call)
{
    unsigned number = stream_number(call, 0);
    struct diff_slot *slot = &call->world->slots[DIFF_STREAM][number];
    CUstream stream = NULL;

    if (number < 3 || slot->state == DIFF_LIVE) {
        diff_skip(call, "taken");
        return;
    }
    if (!diff_line_made(call->world, (int)number)) {
        diff_skip(call, "busy");
        return;
    }
    if (diff_code(call, "code",
                  CU(cuStreamCreateWithPriority)(&stream, (unsigned)call->op->args[1],
                                                 -(int)call->op->args[2])))
        return;
    diff_slot_made(call, slot, (uint64_t)(uintptr_t)stream);
    slot->blocking = call->op->args[1] == CU_STREAM_DEFAULT;
}

void diff_do_stream_end(struct diff_call *call)
{
    CUstream stream;
    int line;

    if (stream_number(call, 0) < 3) {
        diff_code(call, "code", CU(cuStreamDestroy)(NULL));
        return;
    }
    if (diff_stream_of(call, 0, &stream, &line) &&
        diff_code(call, "code", CU(cuStreamDestroy)(stream)) == CUDA_SUCCESS)
        call->world->slots[DIFF_STREAM][line].state = DIFF_GONE;
}

void diff_do_stream_wait(struct diff_call *call)
{
    CUstream stream;
    int line;

    if (diff_stream_of(call, 0, &stream, &line) &&
        diff_code(call, "code", CU(cuStreamSynchronize)(stream)) == CUDA_SUCCESS &&
        line >= 0)
        diff_host_waited(call->world, line);
}

/* "Not yet" and "done" are both right while there is work. */
static void say_query(struct diff_call *call, CUresult code, bool quiet)
{
    /* Other threads that run freely give the streams work that all share. */
    if ((!quiet || call->list->free) &&
        (code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY))
        diff_say(call, " code=either");
    else
        diff_code(call, "code", code);
}

void diff_do_stream_query(struct diff_call *call)
{
    CUstream stream;
    int line;

    /* The legacy stream waits for others, which clocks.c learns when it gets work. */
    if (diff_stream_of(call, 0, &stream, &line) && line >= 0)
        say_query(call, CU(cuStreamQuery)(stream), diff_all_quiet(call->world));
}

void diff_do_stream_flags(struct diff_call *call)
{
    unsigned flags = 77;
    int priority = 77;
    CUstream stream;
    int line;

    if (!diff_stream_of(call, 0, &stream, &line))
        return;
    diff_code(call, "code", CU(cuStreamGetFlags)(stream, &flags));
    diff_code(call, "again", CU(cuStreamGetPriority)(stream, &priority));
    diff_say(call, " flags=%u priority=%d", flags, priority);
}

void diff_do_event_new(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_free(call, DIFF_EVENT, 0);
    CUevent event = NULL;

    if (slot &&
        diff_code(call, "code", CU(cuEventCreate)(&event, (unsigned)call->op->args[1])) ==
            CUDA_SUCCESS)
        diff_slot_made(call, slot, (uint64_t)(uintptr_t)event);
}

void diff_do_event_end(struct diff_call *call)
{
    struct diff_slot *slot = diff_slot_of(call, DIFF_EVENT, 0);

    if (slot &&
        diff_code(call, "code", CU(cuEventDestroy)((CUevent)(uintptr_t)slot->value)) ==
            CUDA_SUCCESS)
        slot->state = DIFF_GONE;
}

void diff_do_event_record(struct diff_call *call)
{
    struct diff_slot *event = diff_slot_of(call, DIFF_EVENT, 0);
    struct diff_use use;

    CUresult code;

    if (!event || !diff_use_stream(call, 1, NULL, NULL, &use))
        return;
    code = CU(cuEventRecord)((CUevent)(uintptr_t)event->value, use.stream);
    if (diff_used(call, &use, diff_code(call, "code", code), NULL, NULL)) {
        if (event->shared)
            return;
        diff_recorded(call->world, event, use.line);
    } else if (code == CUDA_SUCCESS)
        event->captured = true;
}

void diff_do_event_behind(struct diff_call *call)
{
    struct diff_slot *event = diff_slot_of(call, DIFF_EVENT, 1);
    struct diff_use use;

    if (event && diff_use_stream(call, 0, NULL, NULL, &use) &&
        diff_used(call, &use,
                  diff_code(call, "code",
                            CU(cuStreamWaitEvent)(use.stream,
                                                  (CUevent)(uintptr_t)event->value, 0)),
                  NULL, NULL) &&
        event->recorded && !event->captured)
        diff_behind(call->world, use.line, event);
}

void diff_do_event_wait(struct diff_call *call)
{
    struct diff_slot *event = diff_slot_of(call, DIFF_EVENT, 0);

    if (event &&
        diff_code(call, "code",
                  CU(cuEventSynchronize)((CUevent)(uintptr_t)event->value)) ==
            CUDA_SUCCESS &&
        event->recorded && !event->captured)
        diff_event_waited(call->world, event);
}

void diff_do_event_query(struct diff_call *call)
{
    struct diff_slot *event = diff_slot_of(call, DIFF_EVENT, 0);

    if (event)
        say_query(call, CU(cuEventQuery)((CUevent)(uintptr_t)event->value),
                  !event->shared && diff_event_quiet(call->world, event));
}

void diff_do_event_elapsed(struct diff_call *call)
{
    struct diff_slot *from = diff_slot_of(call, DIFF_EVENT, 0);
    struct diff_slot *to = from ? diff_slot_of(call, DIFF_EVENT, 1) : NULL;
    float time = 0;

    if (to && (from->shared || to->shared)) {
        diff_skip(call, "shared");
        return;
    }
    if (to && !(diff_event_quiet(call->world, from) && diff_event_quiet(call->world, to)))
        diff_skip(call, "race"); /* which of two reasons to refuse it comes first */
    else if (to)
        say_query(call,
                  CU(cuEventElapsedTime)(&time, (CUevent)(uintptr_t)from->value,
                                         (CUevent)(uintptr_t)to->value),
                  true);
}

void diff_do_context_wait(struct diff_call *call)
{
    if (diff_code(call, "code", CU(cuCtxSynchronize)()) == CUDA_SUCCESS && call->ctx >= 0)
        diff_host_waited_context(call->world, (unsigned)call->ctx);
}

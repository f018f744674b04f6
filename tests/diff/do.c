/*
 * do.c - what the operations share: see do.h.
 * Owns: the modules of this process by context. Lock: the baton (play.c), or a thread's
 * own.
 */
#include <string.h>

#include "../sim/kernels/kernels_ptx.h"
#include "do.h"

struct diff_memory *diff_contents(struct diff_world *world, struct diff_memory *memory)
{
    return memory->kind == 'i' ? &world->memory[memory->source] : memory;
}

void diff_touch(struct diff_world *world, unsigned slot, uint32_t life)
{
    /* Where it has been used in two lives the graph is not launched. */
    if (!(world->touched & 1u << slot))
        world->lives[slot] = life;
    else if (world->lives[slot] != life)
        world->lives[slot] = UINT32_MAX;
    world->touched |= 1u << slot;
}

/* Is the use ordered behind everything there was? */
static bool ordered(struct diff_call *call, struct diff_memory *memory,
                    const struct diff_use *use)
{
    struct diff_world *world = call->world;

    if (!memory)
        return true;
    if (memory->kind == 'n' &&
        (!use->captured || world->capturing != 1 || memory->source != world->capture)) {
        diff_skip(call, "graph");
        return false;
    }
    if (use->captured) {
        diff_touch(world, (unsigned)(memory - world->memory), memory->life);
        return true;
    }
    /* Nobody knows the order between two processes but by waits. */
    if (memory->kind == 'i' ? diff_all_quiet(world)
                            : diff_ordered(world, memory, use->line))
        return true;
    diff_skip(call, "race");
    return false;
}

/* The line got nothing after all, so it waits for nothing. */
void diff_not_used(struct diff_call *call, const struct diff_use *use)
{
    memcpy(call->world->seen[use->line], use->before, sizeof(use->before));
}

static bool use_line(struct diff_call *call, struct diff_memory *a, struct diff_memory *b,
                     struct diff_use *use)
{
    if (use->line < 0) {
        diff_skip(call, "context");
        return false;
    }
    use->captured = diff_captures(call, use->stream);
    use->empty = false;
    memcpy(use->before, call->world->seen[use->line], sizeof(use->before));
    if (!use->captured)
        diff_enters(call->world, use->line);
    if (ordered(call, a, use) && ordered(call, b, use))
        return true;
    diff_not_used(call, use);
    return false;
}

bool diff_use_stream(struct diff_call *call, unsigned argument, struct diff_memory *a,
                     struct diff_memory *b, struct diff_use *use)
{
    return diff_stream_of(call, argument, &use->stream, &use->line) &&
           use_line(call, a, b, use);
}

bool diff_use_default(struct diff_call *call, struct diff_memory *a,
                      struct diff_memory *b, struct diff_use *use)
{
    use->stream = NULL;
    use->line = diff_default_line(call);
    return use_line(call, a, b, use);
}

bool diff_used(struct diff_call *call, const struct diff_use *use, CUresult code,
               struct diff_memory *a, struct diff_memory *b)
{
    if (code != CUDA_SUCCESS || use->captured || use->empty) {
        diff_not_used(call, use);
        return false;
    }
    diff_submitted(call->world, use->line, a, b);
    if (((a && a->kind == 'i') || (b && b->kind == 'i')) &&
        CU(cuCtxSynchronize)() == CUDA_SUCCESS)
        diff_host_waited_context(call->world, (unsigned)call->ctx);
    return true;
}

unsigned char *diff_bytes(uint64_t bytes, int64_t value)
{
    static _Thread_local unsigned char buffer[1 << 16];

    for (uint64_t i = 0; i < bytes && i < sizeof(buffer); i++)
        buffer[i] = (unsigned char)((uint64_t)value + i * 7 + (i >> 8));
    return buffer;
}

CUfunction diff_kernel(struct diff_call *call, const char *name)
{
    static _Thread_local struct {
        CUmodule module;
        uint64_t life;
    } modules[DIFF_CONTEXTS];
    CUfunction function;
    unsigned long long id = 0;

    if (call->ctx < 0 || CU(cuCtxGetId)((CUcontext)NULL, &id) != CUDA_SUCCESS)
        return NULL;
    if (modules[call->ctx].life != id + 1) {
        if (CU(cuModuleLoadData)(&modules[call->ctx].module, gs_kernels_ptx) !=
            CUDA_SUCCESS)
            return NULL;
        modules[call->ctx].life = id + 1;
    }
    if (CU(cuModuleGetFunction)(&function, modules[call->ctx].module, name) !=
        CUDA_SUCCESS)
        return NULL;
    return function;
}

size_t diff_size(int64_t argument)
{
    static const size_t sizes[] = {0,
                                   1,
                                   8,
                                   100,
                                   512,
                                   513,
                                   2048,
                                   4096,
                                   5000,
                                   20000,
                                   65536,
                                   65537,
                                   262144,
                                   1000000,
                                   1048576,
                                   2097151,
                                   2097152,
                                   2097153,
                                   3000000,
                                   4194304,
                                   6291456,
                                   9000001,
                                   16777216,
                                   33554432,
                                   1u << 27,
                                   (size_t)1 << 31,
                                   (size_t)1 << 45,
                                   SIZE_MAX};

    if (argument >= 0 && argument < 64)
        return sizes[(size_t)argument % (sizeof(sizes) / sizeof(*sizes))];
    return (size_t)argument;
}

bool diff_context_free_to_end(struct diff_world *world, unsigned ctx)
{
    if (diff_lost(world))
        return false;
    for (unsigned i = 0; i < DIFF_SLOTS; i++)
        if (world->memory[i].state != DIFF_NEVER && world->memory[i].ctx == ctx &&
            !diff_ordered_but(world, &world->memory[i], ctx))
            return false;
    return true;
}

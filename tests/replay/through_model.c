/*
 * through_model.c - a trace through the modelled driver alone: what native does.
 * Owns: its devices for one run.   Lock: the model's.
 */
#include "model.h"
#include "through.h"

static uint64_t allocate(void *self, const struct trace_op *op)
{
    struct model *models = self;

    return model_take(&models[op->device % MAX_DEVICES], op->bytes);
}

static void release(void *self, const struct trace_op *op, uint64_t handle)
{
    struct model *models = self;

    model_give(&models[op->device % MAX_DEVICES], handle, op->bytes);
}

void through_model(const struct trace *trace, size_t capacity,
                   const struct run_config *config, struct outcome *out)
{
    struct model models[MAX_DEVICES];
    struct target target = {.self = models, .allocate = allocate, .release = release};

    *out = (struct outcome){0};
    for (unsigned i = 0; i < MAX_DEVICES; i++)
        model_init(&models[i], capacity);
    run_trace(trace, &target, config, &out->run);
    for (unsigned i = 0; i < MAX_DEVICES; i++) {
        out->reserved_peak += models[i].peak;
        out->calls += models[i].calls;
        model_free_all(&models[i]);
    }
}

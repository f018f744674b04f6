/*
 * through_model.c - a trace through the modelled driver alone: what native does.
 * Owns: its devices for one run.   Lock: the model's.
 */
#include "shim/tools/replay/driver_model.h"
#include "shim/tools/replay/through.h"

static uint64_t allocate(void *self, const struct gs_replay_op *op)
{
    struct gs_driver_model *models = self;

    return gs_driver_model_take(&models[op->device % GS_REPLAY_DEVICES], op->bytes);
}

static void release(void *self, const struct gs_replay_op *op, uint64_t handle)
{
    struct gs_driver_model *models = self;

    gs_driver_model_give(&models[op->device % GS_REPLAY_DEVICES], handle, op->bytes);
}

void gs_replay_through_model(const struct gs_replay_trace *trace, size_t capacity,
                             const struct gs_replay_config *config,
                             struct gs_replay_outcome *out)
{
    struct gs_driver_model models[GS_REPLAY_DEVICES];
    struct gs_replay_target target = {
        .self = models, .allocate = allocate, .release = release};

    *out = (struct gs_replay_outcome){0};
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        gs_driver_model_init(&models[i], capacity);
    }
    gs_replay_run(trace, &target, config, &out->run);
    for (unsigned i = 0; i < GS_REPLAY_DEVICES; i++) {
        out->reserved_peak += models[i].peak;
        out->calls += models[i].calls;
        gs_driver_model_free_all(&models[i]);
    }
}

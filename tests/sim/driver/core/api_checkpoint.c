/*
 * api_checkpoint.c - checkpoints of processes, the calling one among them.
 * Owns:  nothing.   Lock: none.
 * Source: Driver API, "CUDA Checkpointing".
 */
#include "checkpoint.h"

#if CUDA_VERSION >= 12080

/* Arguments that are reserved must be zero. */
static bool is_zero(const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;

    while (count > 0 && *byte == 0) {
        byte++;
        count--;
    }
    return count == 0;
}

SIM_API(cuCheckpointProcessGetState, int pid, CUprocessState *state)
{
    unsigned found = 0;

    SIM_TRY(sim_enter(SIM_ID_cuCheckpointProcessGetState));
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_checkpoint_ask(pid, SIM_CHECKPOINT_STATE, 0, &found, NULL));
    *state = (CUprocessState)found;
    return CUDA_SUCCESS;
}

SIM_API(cuCheckpointProcessGetRestoreThreadId, int pid, int *tid)
{
    SIM_TRY(sim_enter(SIM_ID_cuCheckpointProcessGetRestoreThreadId));
    return tid ? sim_checkpoint_ask(pid, SIM_CHECKPOINT_STATE, 0, NULL, tid)
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_API(cuCheckpointProcessLock, int pid, CUcheckpointLockArgs *args)
{
    SIM_TRY(sim_enter(SIM_ID_cuCheckpointProcessLock));
    if (args &&
        (args->reserved0 != 0 || !is_zero(args->reserved1, sizeof(args->reserved1))))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_checkpoint_ask(pid, SIM_CHECKPOINT_LOCK, args ? args->timeoutMs : 0, NULL,
                              NULL);
}

SIM_API(cuCheckpointProcessCheckpoint, int pid, CUcheckpointCheckpointArgs *args)
{
    SIM_TRY(sim_enter(SIM_ID_cuCheckpointProcessCheckpoint));
    if (args && !is_zero(args, sizeof(*args)))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_checkpoint_ask(pid, SIM_CHECKPOINT_SAVE, 0, NULL, NULL);
}

SIM_API(cuCheckpointProcessRestore, int pid, CUcheckpointRestoreArgs *args)
{
    SIM_TRY(sim_enter(SIM_ID_cuCheckpointProcessRestore));
    if (args && !is_zero(args, sizeof(*args)))
        return CUDA_ERROR_NOT_SUPPORTED; /* other devices */
    return sim_checkpoint_ask(pid, SIM_CHECKPOINT_RESTORE, 0, NULL, NULL);
}

SIM_API(cuCheckpointProcessUnlock, int pid, CUcheckpointUnlockArgs *args)
{
    SIM_TRY(sim_enter(SIM_ID_cuCheckpointProcessUnlock));
    if (args && !is_zero(args, sizeof(*args)))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_checkpoint_ask(pid, SIM_CHECKPOINT_UNLOCK, 0, NULL, NULL);
}

#else

SIM_API_TOO_NEW(cuCheckpointProcessGetState)
SIM_API_TOO_NEW(cuCheckpointProcessGetRestoreThreadId)
SIM_API_TOO_NEW(cuCheckpointProcessLock)
SIM_API_TOO_NEW(cuCheckpointProcessCheckpoint)
SIM_API_TOO_NEW(cuCheckpointProcessRestore)
SIM_API_TOO_NEW(cuCheckpointProcessUnlock)

#endif

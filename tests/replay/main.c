/*
 * main.c - `replay`: gpushim replay, and through the CUDA driver found here, too.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/replay/replay.h"
#include "through_device.h"

int main(int argc, char **argv)
{
    const struct gs_replay_program program = {.usage = "replay",
                                              .device = gs_replay_through_device};

    (void)argc;
    gs_replay_program = "replay";
    return gs_replay_command(argv + 1, &program);
}

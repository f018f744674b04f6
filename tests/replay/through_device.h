/*
 * through_device.h - a trace through the CUDA driver of this machine, or what is put in
 * its place.
 */
#ifndef REPLAY_THROUGH_DEVICE_H
#define REPLAY_THROUGH_DEVICE_H

#include "shim/tools/replay/through.h"

/*
 * In:     touch  set the first bytes of each allocation on its stream
 * Returns false if there is no driver; *why says so.
 */
bool gs_replay_through_device(const struct gs_replay_trace *trace, bool touch,
                              const struct gs_replay_config *config,
                              struct gs_replay_outcome *out, const char **why);

#endif

#!/usr/bin/env bash
# timeline_of_leaky.sh FORMAT - the timeline of tests/apps/leaky.c, into the file timeline. Sourced.
LD_PRELOAD=$BUILD/libgpushim.so GPUSHIM_TRACE_FILE=$PWD/trace GPUSHIM_STATE_FILE=$PWD/state GPUSHIM_LOG_FILE=/dev/null \
  "$BUILD/apps/leaky_shared" >said 2>&1
"$BUILD/gpushim" timeline --as="$1" -o timeline trace state >>said 2>&1 || cat said

#!/usr/bin/env bash
# unit.sh PROGRAM - the program as a transient unit of systemd, with this environment.
# zoo: prints sum 357389824
systemd-run --quiet --wait --pipe --setenv=LD_PRELOAD="${LD_PRELOAD-}" --setenv=LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$1"

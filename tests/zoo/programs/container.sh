#!/usr/bin/env bash
# container.sh PROGRAM - the program in a container without an image: the machine's own files, read-only.
# zoo: prints sum 357389824
podman run --rm --quiet --network none --rootfs /:O --env LD_PRELOAD="${LD_PRELOAD-}" --env LD_LIBRARY_PATH="$LD_LIBRARY_PATH" \
  "$1"

#!/usr/bin/env bash
# container.sh PROGRAM - the program in a container without an image: the machine's own files, read-only. The kernel
# may forbid larger limits than the machine's own, and crun knows fewer kinds of control groups than runc.
# zoo: prints sum 357389824
runtime=$(command -v runc || command -v crun)
podman --runtime "$runtime" run --rm --quiet --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
  --env LD_PRELOAD="${LD_PRELOAD-}" --env LD_LIBRARY_PATH="$LD_LIBRARY_PATH" --rootfs /:O "$1"

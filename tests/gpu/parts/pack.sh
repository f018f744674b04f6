# shellcheck shell=bash disable=SC2154  # what gpu-check sets: OWN_BUILD, PACK_RUNTIME, toolkit ...
#
# pack.sh - what a run needs of a build, stripped, in one folder: for a machine that has no
# time to build, or nothing to build with. `gpu-check --build` takes the folder as it takes a
# build.

readonly PACK_BYTES=$((50 << 20)) # 64 MiB can be carried, and the checkout is some of it
readonly PACK_MARK=gpu-check-pack # a file that says that a folder is a pack, and of what
# Of the build, as far as it is there.
readonly PACKED="libgpushim.so gpushim apps bench gpu replay sim"
# Each of these contains NVIDIA's whole static runtime. What they prove is that way of linking,
# so a few of the programs are enough: those of the part safety, and one for each kind of memory.
readonly PACKED_STATIC="async badfree capture freewait graphmem hostpools leaky managed pinned
  pipeline reuse rows_runtime sizes stalls threads"

# The pack of an earlier time is replaced; no other folder is.
clear_pack() {
  [[ ! -e $1 || -d $1 ]] || die "--pack $1: it is no folder"
  if [[ -f $1/$PACK_MARK ]]; then
    rm -rf "$1"
  elif [[ -n $(ls -A "$1" 2>/dev/null) ]]; then
    die "--pack $1: the folder has something in it that is no pack"
  fi
  mkdir -p "$1" 2>/dev/null || die "--pack $1: the folder cannot be made"
}

is_elf() { [[ $(head -c 4 "$1" | tr -d '\0') == $'\177ELF' ]]; }

# Symbols stay, for call stacks; what else a debugger wants goes.
strip_pack() {
  local file

  find "$1" -type f | while IFS= read -r file; do
    [[ $file == *.a ]] || ! is_elf "$file" || strip --strip-debug "$file" || return
  done
}

# copy_of FILE DIR: as far as it was built.
copy_of() { [[ ! -e $1 ]] || cp -a "$1" "$2/" || die "--pack: $1 cannot be copied" 1; }

# pack_runtime DIR: the runtime of the toolkit that the programs were built with.
pack_runtime() {
  local dir

  for dir in "$toolkit/lib64" "$toolkit/lib" "$toolkit/targets/x86_64-linux/lib"; do
    [[ -n $toolkit && -e $dir/libcudart.so.13 ]] || continue
    mkdir -p "$1/$PACK_RUNTIME"
    cp -L "$dir/libcudart.so.13" "$1/$PACK_RUNTIME/" || die "--pack: $dir/libcudart.so.13" 1
    return
  done
  note "no libcudart.so.13 in a toolkit here: the programs named _shared need one there"
}

# run_pack DIR: a build of everything, and DIR made of it. Ends with 1 where that cannot be.
run_pack() {
  local target=$1 entry bytes

  clear_pack "$target"
  command -v strip >/dev/null || die "--pack needs strip (package binutils)" 1
  if [[ -z $build ]]; then
    build=$OWN_BUILD
    build_all "$build" || die_of_build
  fi
  [[ -f $build/libgpushim.so && -x $build/gpu/conformance ]] ||
    die "--pack: not everything was built in $build (see $build/gpu-check-build.log)" 1
  for entry in $PACKED; do
    copy_of "$build/$entry" "$target"
  done
  mkdir -p "$target/apps-gpu"
  for entry in $PACKED_STATIC; do
    copy_of "$build/apps-gpu/${entry}_static" "$target/apps-gpu"
  done
  pack_runtime "$target"
  find "$target" \( -name CMakeFiles -o -name '*.cmake' -o -name Makefile -o -name '*.a' \) \
    -prune -exec rm -rf {} +
  strip_pack "$target" || die "--pack: strip failed" 1
  git describe --always --dirty 2>/dev/null >"$target/$PACK_MARK" ||
    echo "of no commit" >"$target/$PACK_MARK"
  bytes=$(du -sb "$target" | cut -f1)
  [[ $bytes -lt $PACK_BYTES ]] ||
    die "--pack $target: it has $((bytes >> 20)) MiB, and $((PACK_BYTES >> 20)) are the most" 1
  echo "gpu-check: packed $(<"$target/$PACK_MARK") into $target, $(((bytes >> 20) + 1)) MiB;" \
    "there: scripts/gpu-check --build DIR"
}

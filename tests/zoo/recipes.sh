# shellcheck shell=bash disable=SC2034,SC2154  # what run and packages.sh set and use
#
# recipes.sh - packages that are built here: make_NAME FOLDER puts the package `make:NAME` of zoo.txt into
# FOLDER/site-packages, with the file FOLDER/had, or sets `lacks`. Sourced by packages.sh.

: "${work:?set by run}" "${zoo:?}" "${build:?}" "${cache:?set by fetch.sh}"
python_include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)

cuda_include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")

# had_unless NAME FOLDER STATUS [MARK]
had_unless() {
  if [[ $3 -eq 0 ]]; then
    : >"${4:-$2/had}"
  else
    lacks="$1: $(reason_in "$work/make.log")"
    return 1
  fi
}

# PyCUDA is source. It is built with the headers of CUDA 11.8, so that it links against no
# function that the oldest of the drivers lacks.
make_pycuda() {
  local headers=$cache/11.8/include

  fetch 11.8 || { lacks="the headers of CUDA 11.8" && return 1; }
  pip_into "$zoo/pip/numpy==2.4.6" numpy==2.4.6 && pip_into "$work/setuptools" setuptools==84.2.1 wheel==0.48.0 || return
  mkdir -p "$1"
  PYTHONPATH=$zoo/pip/numpy==2.4.6/site-packages:$work/setuptools/site-packages CUDA_ROOT=$cache/11.8 \
    CFLAGS=-I$headers CXXFLAGS=-I$headers LDFLAGS=-L$build/sim timeout 900 python3 -m pip install -q "${pip_cache[@]}" \
    --no-build-isolation --no-deps --retries 2 --target "$1/site-packages" pycuda==2026.1 >"$work/make.log" 2>&1
  had_unless pycuda==2026.1 "$1" $?
}

# CuPy's package contains NVIDIA's runtime, which does not start over the simulated driver. The one module that
# it is linked into is built again, from CuPy's source, over the runtime's library: cupy_shared.
make_cupy_shared() {
  local from=$work/cupy to=$1/site-packages/cupy_shared site=$zoo/pip numpy

  pip_into "$from/cython" Cython==3.2.4 && pip_into "$site/cupy-cuda13x==14.2.0" cupy-cuda13x==14.2.0 &&
    pip_into "$site/numpy==2.4.6" numpy==2.4.6 && pip_into "$from/headers" nvidia-cuda-runtime==13.2.86 \
    nvidia-cuda-crt==13.2.86 nvidia-cuda-cccl==13.3.5.0.6 && pip_into "$from/setuptools" setuptools==84.2.1 wheel==0.48.0 || return
  numpy=$site/numpy==2.4.6/site-packages site=$site/cupy-cuda13x==14.2.0/site-packages
  mkdir -p "$to"
  export PYTHONPATH=$from/cython/site-packages:$numpy:$from/setuptools/site-packages
  { CUPY_INSTALL_USE_STUB=1 timeout 900 python3 -m pip download -q "${pip_cache[@]}" --no-deps --no-build-isolation \
    --no-binary=:all: --dest "$from" cupy==14.2.0 &&
    tar -xzf "$from"/cupy-*.tar.gz -C "$from" --strip-components=1 &&
    python3 -m cython -3 --cplus -E CUPY_USE_CUDA_PYTHON=0,CUPY_CUFFT_STATIC=0 \
      -E CUPY_CYTHON_VERSION=3,CUPY_CUDA_VERSION=13020,CUPY_HIP_VERSION=0 \
      "$from/cupy_backends/cuda/api/runtime.pyx" -o "$from/runtime.cpp" &&
    cp -r "$site/cupy_backends" "$to" &&
    g++ -O1 -w -shared -fPIC -I "$from" -I "$from/cupy_backends/cuda/api" -I "$from/headers/site-packages/nvidia/cu13/include" \
      -I "$numpy/numpy/_core/include" -I "$python_include" \
      "$from/runtime.cpp" -o "$(echo "$to"/cupy_backends/cuda/api/runtime.*.so)" "$build/sim/libcudart.so.13" &&
    echo 'import os, sys; sys.path.insert(0, os.path.dirname(__file__))' >"$to/__init__.py"; } >"$work/make.log" 2>&1
  had_unless "CuPy over a shared runtime" "$1" $?
  local status=$?
  unset PYTHONPATH
  return $status
}

# UCX's package has NVIDIA's runtime of 12 in a file of its own name, which its libraries find by RPATH: the
# simulated runtime takes its place.
make_ucx() {
  local site=$zoo/pip/libucx-cu12==1.22.0/site-packages runtime

  pip_into "${site%/*}" libucx-cu12==1.22.0 || return
  rm -rf "$1" && mkdir -p "$1" && cp -rl "$site" "$1" && runtime=$(echo "$1"/site-packages/libucx_cu12.libs/libcudart-*) &&
    rm "$runtime" && cp "$build/sim/libcudart.so.12" "$runtime" && chmod +x "$1"/site-packages/libucx/bin/* 2>"$work/make.log"
  had_unless "UCX over the simulated runtime" "$1" $?
}

# compile FILE: programs/FILE into ZOO/built, by its kind: a program, a class with its library, or of the folder
# preload a library NAME.so.
compile() {
  local from=$here/programs/$1 name=${1##*/} to=$zoo/built flags=(-g -O1 -w) status

  name=${name%.*}
  flags+=("-I$cuda_include")
  [[ ! $to/$name.had -nt $from ]] || return 0
  mkdir -p "$to"
  case $1 in
    preload/*.c) cc "${flags[@]}" -shared -fPIC "$from" -o "$to/$name.so" -ldl ;;
    mpi/*.c) mpicc "${flags[@]}" "$from" -o "$to/$name" -L"$build/sim" -lcudart ;;
    *.c) cc "${flags[@]}" "$from" -o "$to/$name" -L"$build/sim" -lcudart ;;
    *.f90) gfortran -g -O1 -fopenmp "$from" -J"$work" -o "$to/$name" -L"$build/sim" -lcudart ;;
    *.rs) rustc -g -O "$from" -o "$to/$name" -L native="$build/sim" -l cudart ;;
    *.go) HOME=${HOME:-$work} CGO_CFLAGS="${flags[*]}" CGO_LDFLAGS="-L$build/sim -lcuda" go build -o "$to/$name" "$from" ;;
    *.java)
      javac -g -d "$to" "$from" &&
        cc "${flags[@]}" -shared -fPIC "${from%.java}.c" -o "$to/lib$name.so" -L"$build/sim" -lcuda
      ;;
  esac >"$work/make.log" 2>&1
  status=$?
  had_unless "$1" "$to" $status "$to/$name.had"
}

# A driver that forwards each call to another file (the shape of WSL2's libcuda.so.1 and of API remoting).
make_forwarder() {
  local inner
  inner=$(readlink -f "$build/sim/libcuda.so.1")

  mkdir -p "$1"
  python3 -S "$here/programs/preload/forward.py" "$inner" >"$1/forward.c" &&
    cc -g -O1 -w -shared -fPIC -Wl,-soname,libcuda.so.1 "$1/forward.c" -o "$1/libcuda.so.1" -ldl >"$work/make.log" 2>&1
  had_unless "the forwarding driver" "$1" $?
}

# A video decoder's library whose functions all answer that they are not supported: GStreamer's plug-in of CUDA
# wants one before it has any element.
make_nvcuvid() {
  mkdir -p "$1"
  strings -n 8 /usr/lib/x86_64-linux-gnu/gstreamer-1.0/libgstnvcodec.so | grep -xE 'cuvid[A-Za-z0-9_]+' | sort -u |
    sed 's/.*/int &(void) { return 801; }/' >"$1/nvcuvid.c"
  cc -w -shared -fPIC -Wl,-soname,libnvcuvid.so.1 "$1/nvcuvid.c" -o "$1/libnvcuvid.so.1" >"$work/make.log" 2>&1
  had_unless "a library of video decoding" "$1" $?
}

# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# pytest.sh - the plugin for pytest: limits on the GPU memory of tests, which planted tests exceed and keep; its
# restart under the library, its table, and what it says where it cannot measure.

uses recipes

limits=$sources/tests/apps/python/limits
pytest_paths=$sources/include/python:$sources/tests/apps/python

# find_venv [NAME PACKAGE...]: sets `venv` to an environment with pytest and its plugins, or with these packages, which
# the first case makes, or skips.
find_venv() {
  local packages=(pytest pytest-xdist pytest-asyncio)

  [[ $# -eq 0 ]] || packages=("${@:2}")
  need flock
  need_file "$cuda_path/libcudart.so.13"
  need_file "$build/gpushim"
  venv=$scratch/${1:-pytest}
  exec 9>"$venv.lock"
  flock 9
  if [[ ! -e $venv.made && ! -e $venv.lacks ]]; then
    if ! python3 -m venv "$venv" >venv.log 2>&1; then
      echo 'python3 with venv' >"$venv.lacks"
    elif ! "$venv/bin/pip" install --quiet --retries 1 "${packages[@]}" >venv.log 2>&1; then
      echo "PyPI, for ${packages[*]}" >"$venv.lacks"
    else
      touch "$venv.made"
    fi
  fi
  exec 9>&-
  [[ ! -e $venv.lacks ]] || skip "$(<"$venv.lacks")"
}

# run_pytest PREFIX [VAR=value...] -- WORD...: the tests in test_limits.py and test_module.py, by a plugin that is
# not installed. Leaves PREFIX.xml, too.
run_pytest() {
  local prefix=$1 settings command

  shift
  split_settings "$@"
  run_in "$prefix" PYTHONPATH="$pytest_paths" PYTHONDONTWRITEBYTECODE=1 CONFTEST_LOG="$PWD/$prefix.conftest" \
    "${settings[@]}" -- "$venv/bin/python3" -X utf8 -W ignore -m pytest -p gpushim.pytest_plugin \
    -p no:cacheprovider --rootdir "$limits" --junitxml="$PWD/$prefix.xml" "${command[@]}"
}

# judge_pytest PREFIX checked|unchecked|skipped
judge_pytest() {
  expect_status "$1" "$([[ $2 == skipped ]] && echo 0 || echo 1)"
  python3 -S "$limits/judge.py" "$1.xml" "$2" || { cat "$1.out" && fail "tests that are $2 end otherwise"; }
}

# expect_sites FILE TEST LINE...: the lines below the limit that this test exceeds.
expect_sites() {
  local file=$1 test=$2

  shift 2
  awk -v test=" $test, " 'index($0, test) && / allows / { on = 1; next } on && !/^    / { exit } on' "$file" |
    sed -E 's/ +/ /g; s/^ //' >sites
  printf '%s\n' "$@" >wanted
  cmp -s wanted sites || { diff -u wanted sites; fail "$test: call sites"; }
}

# expect_pytest_failures FILE: each limit with what was found, and the lines that allocated it.
expect_pytest_failures() {
  expect_text "$1" '^3[.]00 MiB \(3145728 B\) on GPU 0 left by test_leak_fails, gpu_limit_leaks allows 0 B$'
  expect_text "$1" '^21[.]0 MiB .* on GPU 0 live at once in test_budget_fails, gpu_limit_memory allows 20[.]0 MiB'
  expect_text "$1" '^7[.]00 MiB \(7340032 B\) on GPU 1 live at once in test_devices_fails, '
  expect_sites "$1" test_leak_fails '3.00 MiB in 1 allocation, cudaMalloc' \
    'malloc cuda.py:23' 'load test_limits.py:20' 'test_leak_fails test_limits.py:37'
  expect_sites "$1" test_thread_fails '2.00 MiB in 1 allocation, cudaMalloc' 'malloc cuda.py:23' 'load test_limits.py:20'
  expect_text "$1" 'AssertionError: an error of its own$'
  expect_text "$1" '^30[.]0 MiB .* live at once in test_own_error_fails, '
}

# A library that is in the process is enough for the limits.
pytest_limits_case() {
  find_venv
  run_pytest limits LD_PRELOAD="$shim" PATH="$build:$PATH" -- "$limits"
  judge_pytest limits checked
  expect_pytest_failures limits.out
  expect_sites limits.out test_budget_fails '21.0 MiB in 2 allocations, cudaMalloc' \
    'malloc cuda.py:23' 'load test_limits.py:20' 'Block.__init__ test_limits.py:29' \
    'test_budget_fails test_limits.py:42'
  expect_sites limits.out test_small_fails \
    "call sites are missing: the process's peak was at another time, or of other threads \
(GPUSHIM_OUTPUT=csv lists what the test allocated in all)"
  # A scope for each: the names are equal up to the end of what a scope's name has room for.
  expect_count limits.out '^    [568][.]00 MiB in 1 allocation, cudaMalloc$' 3
  expect_no_text limits.out 'GPU memory by test|not checked'
  expect_text limits.err '#[0-9]+ +\[scope test_limits[.]py::test_leak_fails\]$'
}
add_case "pytest limits" pytest_limits_case

# Tensors in blocks that PyTorch (a stand-in) kept from an earlier test: a block is no tensor, and a tensor may need no
# block. What is past its allocator counts as before.
pytest_tensors_case() {
  local name

  find_venv
  need_file "$apps/torch_like/libc10_cuda.so"
  mkdir -p site-packages
  cp -r "$sources/tests/apps/python/torch_like/torch" site-packages/
  mkdir -p site-packages/torch/lib
  cp "$apps"/torch_like/*.so site-packages/torch/lib/
  cat >test_tensors.py <<'PYTHON'
import _thread
import concurrent.futures
import threading

import pytest
import torch

import cuda

kept = []
pool = concurrent.futures.ThreadPoolExecutor(1)
pool.submit(int).result()  # its thread starts before the tests


def test_first():
    for tensor in [torch.Tensor(size << 20) for size in (1, 2, 8, 8)]:
        del tensor


@pytest.mark.gpu_limit_memory("12 MB")
def test_peak_fails():
    both = [torch.Tensor(8 << 20), torch.Tensor(8 << 20)]
    assert both


@pytest.mark.gpu_limit_leaks("0 B")
def test_leak_fails():
    kept.append(torch.Tensor(2 << 20))


@pytest.mark.gpu_limit_memory("3 MB")
@pytest.mark.gpu_limit_leaks("0 B")
def test_new_block_passes():
    assert torch.Tensor(3 << 20)


@pytest.mark.gpu_limit_memory("3 MB")
def test_past_it_fails():
    memory = cuda.malloc(4 << 20)
    cuda.free(memory)


@pytest.mark.gpu_limit_memory("3 MB")
def test_later_fails():
    cuda.free(cuda.malloc(7 << 19))


@pytest.mark.gpu_limit_memory("3 MB")
def test_kept_block_fails():
    assert torch.Tensor(8 << 20)


class Worker(threading.Thread):
    def run(self):
        torch.Tensor(40 << 20)


@pytest.mark.gpu_limit_memory("3 MB")
def test_thread_fails():
    worker = Worker()
    worker.start()
    worker.join()


@pytest.mark.gpu_limit_memory("3 MB")
def test_pool_fails():
    assert pool.submit(lambda: torch.Tensor(50 << 20)).result()


@pytest.mark.gpu_limit_memory("3 MB")
def test_bare_thread_fails():
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(lambda: (torch.Tensor(60 << 20), done.release()), ())
    done.acquire()
PYTHON
  run_pytest tensors PATH="$build:$PATH" TORCH_LIBRARIES="$PWD/site-packages/torch/lib" \
    PYTHONPATH="$PWD/site-packages:$pytest_paths" -- --gpushim --rootdir . test_tensors.py
  expect_status tensors 1
  expect_text tensors.out '^16[.]0 MiB .* live at once in test_peak_fails, gpu_limit_memory allows 12[.]0 MiB '
  expect_text tensors.out '^2[.]00 MiB .* left by test_leak_fails, gpu_limit_leaks allows 0 B$'
  expect_sites tensors.out test_leak_fails '2.00 MiB in 1 allocation, tensor of PyTorch' \
    'test_leak_fails test_tensors.py:28'
  expect_text tensors.out '^4[.]00 MiB .* live at once in test_past_it_fails, gpu_limit_memory allows 3[.]00 MiB '
  expect_sites tensors.out test_later_fails \
    "the process's peak was at another time; what the test allocated in all, freed since or not, of PyTorch only new blocks:" \
    '3.50 MiB in 1 allocation, cudaMalloc' 'malloc cuda.py:23' 'test_later_fails test_tensors.py:45'
  # These formats are on by --gpushim, which the advice to set one would not say.
  for name in kept_block bare_thread; do
    expect_sites tensors.out "test_${name}_fails" \
      "call sites are missing: the process's peak was at another time, or of other threads"
  done
  # Alone see the scope of a test left out of its threads.
  expect_sites tensors.out test_thread_fails '40.0 MiB in 1 allocation, tensor of PyTorch' 'Worker.run test_tensors.py:55'
  expect_sites tensors.out test_pool_fails '50.0 MiB in 1 allocation, tensor of PyTorch' \
    'test_pool_fails.<locals>.<lambda> test_tensors.py:67'
  expect_text tensors.out '8 failed, 2 passed'
}
add_case "pytest tensors" pytest_tensors_case

# What CuPy keeps for reuse and Numba frees late (stand-ins) is left by no test; of a deep stack the test's line stays.
pytest_pools_case() {
  find_venv
  mkdir -p numba/cuda/cudadrv
  touch numba/__init__.py numba/cuda/cudadrv/__init__.py
  cat >cupy.py <<'PYTHON'
import types

import cuda

blocks = []


def get_default_memory_pool():
    return types.SimpleNamespace(free_all_blocks=lambda: [cuda.free(blocks.pop()) for _ in blocks[:]])
PYTHON
  cat >numba/cuda/__init__.py <<'PYTHON'
import types

import cuda

late = []
pending = types.SimpleNamespace(clear=lambda: [cuda.free(late.pop()) for _ in late[:]])


def current_context():
    return types.SimpleNamespace(memory_manager=types.SimpleNamespace(deallocations=pending))
PYTHON
  echo 'import types; driver = types.SimpleNamespace(is_initialized=True)' >numba/cuda/cudadrv/driver.py
  cat >test_pools.py <<'PYTHON'
import cupy
import numba.cuda.cudadrv.driver
import pytest

import cuda

pytestmark = pytest.mark.gpu_limit_leaks("0 B")
kept = []


def test_cupy_passes():
    cupy.blocks.append(cuda.malloc(1 << 20))


def test_numba_passes():
    numba.cuda.late.append(cuda.malloc(1 << 20))


def deep(more):
    return deep(more - 1) if more else cuda.malloc(2 << 20)


def test_deep_fails():
    kept.append(deep(12))
PYTHON
  run_pytest pools PATH="$build:$PATH" PYTHONPATH="$PWD:$pytest_paths" -- --gpushim --rootdir . test_pools.py
  expect_status pools 1
  expect_text pools.out '1 failed, 2 passed'
  expect_sites pools.out test_deep_fails '2.00 MiB in 1 allocation, cudaMalloc' 'malloc cuda.py:23' \
    'deep test_pools.py:20' 'deep test_pools.py:20' 'deep test_pools.py:20' 'deep test_pools.py:20' 'deep test_pools.py:20' \
    'deep test_pools.py:20' '... 7 frames' 'test_deep_fails test_pools.py:24'
}
add_case "pytest pools" pytest_pools_case

# Debian 12's pytest and pluggy. Alone sees a wrapper use what pluggy has from 1.1 on.
pytest_old_case() {
  find_venv pytest-old pytest==7.2.1 pluggy==1.0.0
  cat >test_old.py <<'PYTHON'
import cuda
import pytest

kept = []


@pytest.mark.gpu_limit_leaks("0 B")
def test_leak_fails():
    print("shown")
    kept.append(cuda.malloc(1 << 20))


@pytest.mark.gpu_limit_leaks("0 B")
def test_passes():
    print("hidden")
PYTHON
  run_pytest old PATH="$build:$PATH" PYTHONPATH="$PWD:$pytest_paths" -- --gpushim --rootdir . test_old.py
  expect_status old 1
  expect_text old.out '^1[.]00 MiB \(1048576 B\) on GPU 0 left by test_leak_fails, gpu_limit_leaks allows 0 B$'
  expect_text old.out '^shown$'
  expect_no_text old.out 'hidden|Error'
  expect_text old.out '1 failed, 1 passed'
}
add_case "pytest 7 of Debian 12" pytest_old_case

# Without call stacks the line says why. Alone sees another test's peak blamed, or no line at all.
pytest_no_stacks_case() {
  find_venv
  run_pytest off LD_PRELOAD="$shim" PATH="$build:$PATH" GPUSHIM_STACK=off -- "$limits"
  expect_sites off.out test_leak_fails 'call sites are missing: GPUSHIM_STACK=off'
  expect_sites off.out test_small_fails 'call sites are missing: GPUSHIM_STACK=off'
}
add_case "pytest limits without call stacks" pytest_no_stacks_case

# With the library missing, pytest starts again: before it reads a conftest.py, with all of its arguments.
pytest_restart_case() {
  find_venv
  run_pytest restart PATH="$build:$PATH" -- --gpushim --gpushim-top=3 "$limits"
  judge_pytest restart checked
  expect_pytest_failures restart.out
  # A test whose peak is not the process's has no call sites, or those of another test.
  expect_sites restart.out test_small_fails \
    "the process's peak was at another time; what the test allocated in all, freed since or not:" \
    '5.00 MiB in 1 allocation, cudaMalloc' 'malloc cuda.py:23' 'load test_limits.py:20' \
    'Block.__init__ test_limits.py:29' 'test_small_fails test_limits.py:72'
  expect_equal 'conftest.py' 'main read' "$(<restart.conftest)"
  expect_no_text restart.err 'files written' # the plugin's own is /dev/null
  grep -A5 'GPU memory by test' restart.out | sed -E '1d; s/ +/ /g; s/^ //; 6,$d' >table
  expect_equal 'the table' "$(printf '%s\n' 'peak left allocs test' \
    '90.0 MiB 0 B 1 test_limits.py::test_unmarked_passes' \
    '30.0 MiB - 1 test_limits.py::test_own_error_fails' '21.0 MiB 0 B 2 test_limits.py::test_budget_fails')" "$(<table)"
}
add_case "pytest restart" pytest_restart_case

# The workers measure, and the process that has none of the tests prints.
pytest_xdist_case() {
  find_venv
  run_pytest workers PATH="$build:$PATH" -- --gpushim -n 2 --dist loadscope "$limits"
  judge_pytest workers checked
  expect_pytest_failures workers.out
  expect_equal 'processes that read conftest.py' 'gw0 read gw1 read main read' "$(sort workers.conftest | xargs)"
  expect_count workers.out 'GPU memory by test' 1
  expect_text workers.out '^ +90[.]0 MiB +0 B +1  test_limits[.]py::test_unmarked_passes$'
}
add_case "pytest workers" pytest_xdist_case

# Without the library, and without --gpushim, limits have no effect but a line.
pytest_without_case() {
  find_venv
  run_pytest without -- "$limits"
  judge_pytest without unchecked
  expect_count without.out \
    '^gpushim: 28 limits not checked: libgpushim[.]so is not in the process: run pytest --gpushim$' 1
  run_pytest workers -- -n 2 "$limits"
  judge_pytest workers unchecked
  expect_count workers.out '^gpushim: 28 limits not checked: ' 1
  run_pytest off LD_PRELOAD="$shim" GPUSHIM_TRACK=off -- "$limits"
  judge_pytest off unchecked
  expect_text off.out '^gpushim: 28 limits not checked: GPUSHIM_TRACK=off$'
}
add_case "pytest without the library" pytest_without_case

# A run that was to measure and cannot skips what it cannot check, and never starts again twice.
pytest_cannot_case() {
  find_venv
  mkdir without
  printf '#!/bin/sh\nexec "$@"\n' >without/gpushim
  chmod +x without/gpushim
  run_pytest missing -- --gpushim -rs "$limits"
  judge_pytest missing skipped
  expect_text missing.out "^gpushim: 28 limits not checked: no command gpushim in $venv/bin or on PATH\$"
  expect_text missing.out '^SKIPPED .*GPU memory is not measured: no command gpushim'
  run_pytest empty PATH="$PWD/without:$PATH" -- --gpushim "$limits"
  judge_pytest empty skipped
  expect_text empty.out "not checked: $PWD/without/gpushim started pytest without its library\$"
  run_in called PYTHONPATH="$pytest_paths" PATH="$build:$PATH" -- "$venv/bin/python3" -B -c \
    "import pytest; print('once')
pytest.main(['-p', 'gpushim.pytest_plugin', '--gpushim', '-p', 'no:cacheprovider', '$limits'])"
  expect_count called.out '^once$' 1
  expect_text called.out \
    '^gpushim: 28 limits not checked: a program called pytest: start that with the command gpushim$'
  run_pytest none -- --gpushim -k unmarked "$limits"
  expect_text none.out '^gpushim: nothing was measured: no command gpushim'
}
add_case "pytest cannot restart" pytest_cannot_case

# A wrong limit is an error of its test, with the library and without.
pytest_sizes_case() {
  local way

  find_venv
  for way in with without; do
    run_pytest "$way" LD_PRELOAD="$([[ $way == without ]] || echo "$shim")" -- "$limits/sizes.py"
    expect_text "$way.out" '^=+ 25 errors in '
    expect_text "$way.out" \
      "^gpu_limit_memory\\('2'\\) of test_wrong\\[0\\]: not a size with its unit, such as \"512 MiB\" or \"0 B\"\$"
    expect_text "$way.out" "^gpu_limit_memory\\('-1 MB'\\) of test_wrong\\[1\\]: not a size "
    expect_text "$way.out" '^gpu_limit_leaks\(\) of test_wrong\[22\]: not a size '
    expect_text "$way.out" "^gpu_limit_leaks\\(size='1 B'\\) of test_wrong\\[24\\]: not a size "
  done
  for way in -1 x ''; do
    run_pytest top -- --gpushim-top="$way" "$limits"
    expect_status top 4
    expect_text top.err "argument --gpushim-top: '$way' is not a number of tests\$"
  done
}
add_case "pytest wrong limits" pytest_sizes_case

# The wheel's entry point is the plugin that -p names, not a second one.
pytest_installed_case() {
  local words

  find_venv
  mkdir -p site/gpushim-0.dist-info
  ln -s "$sources/include/python/gpushim" site/gpushim
  printf 'Metadata-Version: 2.1\nName: gpushim\nVersion: 0\n' >site/gpushim-0.dist-info/METADATA
  sed -n '/entry_points[.]txt" <<POINTS$/,/^POINTS$/{/POINTS$/!p}' "$sources/scripts/wheel" \
    >site/gpushim-0.dist-info/entry_points.txt
  for words in '' '-p gpushim.pytest_plugin'; do
    # shellcheck disable=SC2086  # words
    run_in installed PYTHONPATH="$PWD/site:$sources/tests/apps/python" LD_PRELOAD="$shim" -- "$venv/bin/python3" -B \
      -m pytest $words --strict-markers -p no:cacheprovider "$limits/test_module.py"
    expect_text installed.out '^=+ 1 failed, 1 passed in '
    expect_text installed.out '^1[.]00 MiB .* on GPU 0 left by test_module_fails, '
  done
}
add_case "pytest installed" pytest_installed_case

# The limits of docs/guide.md, with what the page shows of their failure.
pytest_guide_case() {
  find_venv
  cat >test_page.py <<'PYTHON'
import ctypes

import pytest


def train():
    block = ctypes.c_void_p()
    ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(block), ctypes.c_size_t(3 << 20))



PYTHON
  page_block guide.md 'ctest and pytest' 1 >>test_page.py
  page_block guide.md 'ctest and pytest' 2 >wanted
  run_in guide PYTHONPATH="$pytest_paths" PATH="$build:$PATH" -- "$venv/bin/python3" -B -m pytest \
    -p gpushim.pytest_plugin -p no:cacheprovider --gpushim test_page.py
  expect_status guide 1
  grep -A"$(($(wc -l <wanted) - 1))" ' left by test_training, ' guide.out | head -n "$(wc -l <wanted)" >found
  cmp -s wanted found || { diff -u wanted found; fail 'docs/guide.md shows another failure'; }
}
add_case "pytest guide" pytest_guide_case

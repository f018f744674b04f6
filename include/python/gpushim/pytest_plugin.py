"""Limits on the GPU memory of tests, and a table of the tests that need most.

    @pytest.mark.gpu_limit_memory("2 GB")  # at most this much live at once, beyond what was live before
    @pytest.mark.gpu_limit_leaks("0 B")    # at most this much more live after the test than before
    def test_training(): ...

    pytest --gpushim                       # or: gpushim pytest

pytest finds the plugin where the wheel is installed; from a source tree: pytest -p gpushim.pytest_plugin. A limit
holds for each device, and for the call phase of the test: what its fixtures allocated was live before. Allocations of
all threads count. Pinned memory does not. What xdist's workers measure comes to the main process as user_properties.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import functools
import gc
import os
import re
import sys
import threading

import pytest

import gpushim
from gpushim import _command, _sites

_RESTARTED = "PYTEST_GPUSHIM_RESTARTED"  # a process that has it was started by _restart
_TOTALS = {"GPUSHIM_OUTPUT": "csv", "GPUSHIM_OUTPUT_FILE": os.devnull}  # counts what is freed since: _sites.totals
_COUNTING = {"csv", "pprof", "collapsed-total"}  # formats that have what is freed since
_MOST_DEVICES = 64  # GS_MAX_DEVICES
_SCOPE_BYTES = 110  # of the 127 of a scope's name: a number may follow
_FACTORS = {unit: 1024 ** power for power, unit in enumerate(("", "K", "M", "G", "T"))}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([KMGT])(?:I?B)?|B)", re.IGNORECASE)
_MARKERS = {
    "gpu_limit_memory": "most GPU memory that the test may have live at once, beyond what was live before",
    "gpu_limit_leaks": "most GPU memory that may stay live after the test",
}
_PEAK, _LEFT, _ALLOCATIONS, _UNCHECKED = (
    "gpushim_peak_bytes", "gpushim_left_bytes", "gpushim_allocations", "gpushim_unchecked")


# ---- options and limits ----------------------------------------------------------------


def _count(text):
    if not re.fullmatch("[0-9]+", text):
        raise argparse.ArgumentTypeError("%r is not a number of tests" % text)
    return int(text)


def pytest_addoption(parser):
    group = parser.getgroup("gpushim", "GPU memory of tests (gpushim)")
    group.addoption("--gpushim", action="store_true", help="run under libgpushim.so, and list the tests that need most "
                    "GPU memory")
    group.addoption("--gpushim-top", type=_count, default=5, metavar="N", help="list this many tests (5)")


def parse_size(text):
    """The bytes of "2 GB", "512 MiB", "0 B": units as in the options of the library, powers of 1024. None: not a
    size, or one without a unit."""
    parts = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if not parts:
        return None
    whole, _, fraction = parts[1].partition(".")
    factor = _FACTORS[(parts[2] or "").upper()]
    return int(whole) * factor + int(fraction or 0) * factor // 10 ** len(fraction)


def _limits(item):
    """{marker: bytes} of a test. A marker that is not understood is an error of this test."""
    found = {}
    for name in _MARKERS:
        marker = item.get_closest_marker(name)
        if not marker:
            continue
        limit = parse_size(marker.args[0]) if len(marker.args) == 1 and not marker.kwargs else None
        if limit is None:
            values = [repr(value) for value in marker.args] + ["%s=%r" % pair for pair in marker.kwargs.items()]
            pytest.fail('%s(%s) of %s: not a size with its unit, such as "512 MiB" or "0 B"'
                        % (name, ", ".join(values), item.name), pytrace=False)
        found[name] = limit
    return found


# ---- the process -----------------------------------------------------------------------


def _command_line():
    """The interpreter's own arguments, from its name on."""
    if hasattr(sys, "orig_argv"):
        return list(sys.orig_argv)
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def _restart(config):
    """Starts pytest again, under the library, in place of this process. Returns only if that fails: the reason."""
    words, own = _command_line(), [os.fspath(word) for word in config.invocation_params.args]
    if words[len(words) - len(own):] != own or not sys.executable:  # a restart would run that program again
        return "a program called pytest: start that with the command gpushim"
    command = _command.find()
    if not command:
        return _command.missing()
    settings = {_RESTARTED: "1"}
    if not any(name in os.environ for name in _TOTALS):
        settings.update(_TOTALS)
    os.environ.update(settings)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(command, [command, sys.executable, *words[1:]])
    except OSError as problem:
        for name in settings:
            del os.environ[name]
        return "%s: %s" % (command, problem.strerror)


def _switched_off():
    """The variable by which the library does not record allocations; "" if there is none."""
    for name in ("GPUSHIM_ENABLE", "GPUSHIM_TRACK"):
        if {"off", "0", "no", "false", "later"} & set(os.environ.get(name, "").lower().split(",")):
            return "%s=%s" % (name, os.environ[name])
    return ""


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Before pytest captures output and reads a conftest.py."""
    restarted = os.environ.pop(_RESTARTED, None)
    if early_config.known_args_namespace.gpushim and not gpushim.version() and not _switched_off():
        if restarted:
            early_config.gpushim_problem = "%s started pytest without its library" % _command.find()
        elif "PYTEST_XDIST_WORKER" not in os.environ:
            early_config.gpushim_problem = _restart(early_config)
    yield


def _problem(config):
    """Why nothing can be measured; "" if it can."""
    if _switched_off():
        return _switched_off()
    if not gpushim.version():
        advice = "" if config.option.gpushim else ": run pytest --gpushim"
        return getattr(config, "gpushim_problem", None) or "libgpushim.so is not in the process" + advice
    try:
        gpushim.stretch().end()
    except gpushim.Error as problem:
        return str(problem)
    return ""


def pytest_configure(config):
    for name, text in _MARKERS.items():
        config.addinivalue_line("markers", '%s(size): %s: "512 MiB", "0 B"' % (name, text))
    config.pluginmanager.register(_Limits(config), "gpushim-limits")


# ---- measuring -------------------------------------------------------------------------


def _devices():
    """The statistics of each device, up to the last that had an allocation. The sum is asked for last: while other
    threads allocate, there may be devices too many, never too few."""
    found = []
    while len(found) < _MOST_DEVICES and sum(one.allocs for one in found) < gpushim.statistics().allocs:
        found.append(gpushim.statistics(len(found)))
    return found


def _release_torch(torch):
    torch.cuda.empty_cache()


def _release_cupy(cupy):
    cupy.get_default_memory_pool().free_all_blocks()


def _release_numba(driver):
    if driver.driver.is_initialized:  # else this would start CUDA
        sys.modules["numba.cuda"].current_context().memory_manager.deallocations.clear()


# What a package keeps for reuse, or frees late, is no leak of a test.
_RELEASES = {"torch": _release_torch, "cupy": _release_cupy, "numba.cuda.cudadrv.driver": _release_numba}


def _collect():
    """Frees unreachable objects, and the memory that packages keep for reuse."""
    gc.collect()
    for name, release in _RELEASES.items():
        if name in sys.modules:
            try:
                release(sys.modules[name])
            except Exception:  # pylint: disable=broad-except # of another version, or not able now: it stays
                pass


def _forget_last_error():
    """sys keeps the traceback of the last test that failed, and so its local variables. pytest deletes it, too, but
    within the next test: then that test would seem to free memory."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)


def _reserved(device):
    """What PyTorch's caching allocator has of a device: of this the tensors are in use. 0 where the library does not
    see tensors in it."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    seen = cuda and gpushim.statistics(device).tensor_peak_bytes
    return cuda.memory_reserved(device) if seen else 0


_Use = collections.namedtuple("_Use", "tensors others")  # bytes in use: in PyTorch's blocks, and elsewhere


def _use(now, device):
    reserved = _reserved(device)
    return _Use(now.tensor_bytes if reserved else 0, max(now.live_bytes - reserved, 0))


class _Measure:
    """The memory of a test: peak and left are {device: bytes} beyond what was in use when it began."""

    def __init__(self):
        _forget_last_error()
        if any(one.live_bytes for one in _devices()):
            _collect()
        self.peak, self.left, self.allocations = {}, {}, 0
        self._stretches = [gpushim.stretch(device) for device in range(len(_devices()))]
        self._before = [_use(one.statistics, device) for device, one in enumerate(self._stretches)]
        self._reserved = [_reserved(device) for device in range(len(self._stretches))]

    def end(self):
        reserved = [max(_reserved(device), before) for device, (_, _, before) in enumerate(self._rows())]
        if any(sum(_use(now, device)) > sum(before) for device, (now, before, _) in enumerate(self._rows())):
            _collect()
        for device, (now, before, _) in enumerate(self._rows()):
            after = _use(now, device)
            self.left[device] = max(sum(after) - sum(before), 0)
            # Both peaks may be of different moments.
            tensors = now.tensor_peak_bytes if reserved[device] else 0
            others = max(now.peak_bytes - reserved[device], after.others, before.others)
            self.peak[device] = max(tensors + others - sum(before), 0)
            self.allocations += now.allocs
        for one in self._stretches:
            one.end()

    def _rows(self):
        """Of each device: its statistics since the beginning, and what was in use and reserved by PyTorch then. A
        device whose first allocation came later has no stretch: all of its statistics are the test's."""
        known = len(self._stretches)
        yield from zip((one.statistics for one in self._stretches), self._before, self._reserved)
        yield from ((now, _Use(0, 0), 0) for now in _devices()[known:])


class _TestScope:
    """The scope of the test that runs, also for the threads that it starts and for what it gives pools of threads to
    run. The functions that see to that stay in place between tests: a test may replace them, and put them back after
    its end."""

    def __init__(self):
        self._name = None
        start, submit = threading.Thread.start, concurrent.futures.ThreadPoolExecutor.submit

        @functools.wraps(start)
        def start_within(thread):
            if not self._name:
                start(thread)
                return
            run, name = thread.run, self._name

            def run_within():
                thread.__dict__.pop("run", None)
                _within(name, run)

            thread.run = run_within
            try:
                start(thread)
            except BaseException:
                thread.__dict__.pop("run", None)
                raise

        @functools.wraps(submit)
        def submit_within(pool, function, /, *arguments, **named):
            if self._name:
                function = functools.partial(_within, self._name, function)
            return submit(pool, function, *arguments, **named)

        threading.Thread.start, concurrent.futures.ThreadPoolExecutor.submit = start_within, submit_within

    @contextlib.contextmanager
    def of(self, name):
        self._name = name
        try:
            with gpushim.scope(name):
                yield
        finally:
            self._name = None


def _within(name, function, *arguments, **named):
    with gpushim.scope(name):
        return function(*arguments, **named)


def _scope_name(nodeid):
    """The test's name without the folder of its file and without a slash, not too long for a scope."""
    path, colons, test = nodeid.partition("::")
    name = (path.rpartition("/")[2] + colons + test).replace("/", ":")
    return name.encode(errors="replace")[:_SCOPE_BYTES].decode(errors="ignore")


def _excess(measure, limits):
    """(marker, device, bytes, limit) of each limit that the test exceeds."""
    for name, found in (("gpu_limit_memory", measure.peak), ("gpu_limit_leaks", measure.left)):
        for device, size in found.items():
            if name in limits and size > limits[name]:
                yield name, device, size, limits[name]


def _exact_text(size):
    """3.00 MiB (3145728 B), or 77 B."""
    return _sites.size_text(size) + (" (%d B)" % size if size >= 1024 else "")


def _excess_text(item, scope, excess):
    """What a failure says: each limit that was exceeded, and the call sites."""
    try:
        report, problem = _sites.report(), None
    except _sites.Missing as missing:
        report, problem = None, str(missing)
    if report and report["options"].get("GPUSHIM_STACK") == "off":
        report, problem = None, "GPUSHIM_STACK=off"
    lines = []
    for name, device, size, limit in excess:
        what = "live at once in" if name == "gpu_limit_memory" else "left by"
        lines.append("%s on GPU %d %s %s, %s allows %s" % (
            _exact_text(size), device, what, item.name, name, _exact_text(limit)))
        if report is None:
            lines.append("    call sites are missing: %s" % problem)
            continue
        if name == "gpu_limit_memory":
            lines.extend(_peak_lines(report, scope, device, size, str(item.path)))
        else:
            own = _sites.own(report, report["leaks"] + report["suppressed"], scope, device)
            lines.extend(_sites.lines(own, size, str(item.path)))
    return "\n".join(lines)


def _peak_lines(report, scope, device, size, file):
    """The call sites at the test's peak, if that is the process's peak, too: of no other the library knows them. Else
    all that the test has allocated, which has the same call sites with more bytes."""
    own = _sites.own(report, [place for peak in report["peaks"] for place in peak["places"]], scope, device)
    if own:
        return _sites.lines(own, size, file)
    try:
        found = _sites.totals(scope, device)
    except _sites.Missing as missing:
        return ["    call sites are missing: %s" % missing]
    if found:
        head = "    the process's peak was at another time; what the test allocated in all, freed since or not%s:"
        return [head % (", of PyTorch only new blocks" if _reserved(device) else ""), *_sites.lines(found, 0, file)]
    counted = _COUNTING & set(os.environ.get("GPUSHIM_OUTPUT", "").split(","))
    return ["    call sites are missing: the process's peak was at another time, or of other threads"
            + ("" if counted else " (GPUSHIM_OUTPUT=csv lists what the test allocated in all)")]


def _fail(outcome, failure):
    """Lets the test end with this failure."""
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(failure)
    else:  # pluggy before 1.1: an exception from a wrapper would skip the end of all other wrappers
        outcome._result, outcome._excinfo = None, (type(failure), failure, None)


# ---- the plugin ------------------------------------------------------------------------


class _Limits:
    """Measures tests in the process that runs them, a worker of xdist, too; reports in the one that prints."""

    def __init__(self, config):
        self._wanted, self._top = config.option.gpushim, config.option.gpushim_top
        self._problem = _problem(config)
        self._scopes, self._scope = collections.Counter(), None
        self._found, self._unchecked = {}, []

    def _scope_of(self, item):
        """A name for the memory of this run of the test alone."""
        name = _scope_name(item.nodeid)
        self._scopes[name] += 1
        return name if self._scopes[name] == 1 else "%s (%d)" % (name, self._scopes[name])

    @pytest.hookimpl
    def pytest_runtest_setup(self, item):
        item.user_properties[:] = [one for one in item.user_properties if not one[0].startswith("gpushim_")]
        limits = _limits(item)
        if not limits or not self._problem:
            return
        item.user_properties.extend((_UNCHECKED, self._problem) for _ in limits)
        if self._wanted:
            pytest.skip("GPU memory is not measured: " + self._problem)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        limits = _limits(item)
        if self._problem or not (limits or self._wanted):
            yield
            return
        scope, measure, self._scope = self._scope_of(item), _Measure(), self._scope or _TestScope()
        with self._scope.of(scope):
            outcome = yield
        measure.end()
        item.user_properties += [(_PEAK, max(measure.peak.values(), default=0)), (_ALLOCATIONS, measure.allocations)]
        if outcome.excinfo:  # the traceback refers to the test's local variables
            measure.left = {}
        else:
            item.user_properties.append((_LEFT, max(measure.left.values(), default=0)))
        excess = list(_excess(measure, limits))
        if excess and outcome.excinfo:
            item.add_report_section("call", "gpushim", _excess_text(item, scope, excess))
        elif excess:
            _fail(outcome, pytest.fail.Exception(_excess_text(item, scope, excess), pytrace=False))

    def pytest_runtest_logreport(self, report):
        if report.when != "teardown":
            return
        self._unchecked += [value for name, value in report.user_properties if name == _UNCHECKED]
        figures = dict(report.user_properties)
        if figures.get(_PEAK):
            self._found[report.nodeid] = figures

    def pytest_terminal_summary(self, terminalreporter):
        if self._unchecked:
            terminalreporter.write_line("gpushim: %s not checked: %s" % (
                _sites.count_text(len(self._unchecked), "limit"), self._problem or self._unchecked[0]), yellow=True)
        elif self._wanted and self._problem:
            terminalreporter.write_line("gpushim: nothing was measured: %s" % self._problem, yellow=True)
        if self._wanted and not self._problem and self._top:
            terminalreporter.section("GPU memory by test")
            for line in self._table():
                terminalreporter.write_line(line)

    def _table(self):
        """The tests that had most memory live at once, largest first."""
        if not self._found:
            yield "no test allocated GPU memory"
            return
        yield "%10s %10s %10s  test" % ("peak", "left", "allocs")
        rows = sorted(self._found.items(), key=lambda row: (-row[1][_PEAK], row[0]))
        for nodeid, figures in rows[:self._top]:
            left = _sites.size_text(figures[_LEFT]) if _LEFT in figures else "-"
            yield "%10s %10s %10d  %s" % (_sites.size_text(figures[_PEAK]), left, figures[_ALLOCATIONS], nodeid)

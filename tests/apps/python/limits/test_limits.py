"""test_limits.py - tests with limits on their GPU memory. Under the library those with "fails" in their name fail,
and the others pass; without it only those with "own_error" in their name fail.
A comment says which fault a test alone would see."""
import asyncio
import sys
import threading
import types
import unittest

import pytest

import cuda

memory, leaks = pytest.mark.gpu_limit_memory, pytest.mark.gpu_limit_leaks
LONG = "x" * 200


def load(megabytes, device=0):
    assert cuda.released.cudaSetDevice(device) == 0
    block = cuda.malloc(megabytes << 20)
    assert cuda.released.cudaSetDevice(0) == 0
    return block


class Block:
    """Memory that is freed with the object."""

    def __init__(self, megabytes):
        self.block = load(megabytes)

    def __del__(self):
        cuda.free(self.block)


@leaks("0 B")
def test_leak_fails():  # no measurement of what is left
    load(3)


@memory("20 MB")
def test_budget_fails():  # only what is left is measured
    held = [Block(19), Block(2)]
    del held


@memory("21 MB")
@leaks("0 B")
def test_budget_passes():  # the limit itself is refused; memory from before, such as test_leak_fails's, counts
    held = [Block(19), Block(2)]
    del held


@leaks("0 B")
def test_cycle_passes():  # what the garbage collector has not freed yet counts
    block = Block(4)
    block.itself = block


@pytest.fixture
def ten():
    return Block(10)


@memory("6 MB")
@leaks("0 B")
def test_fixture_passes(ten):  # the stretch begins before the fixtures
    assert ten and Block(5)


@memory("4 MB")
def test_small_fails():  # call sites of another test's peak are shown for this one's
    Block(5)


@leaks("1 MB")
@pytest.mark.parametrize("megabytes", [1, 2], ids=["1 passes", "2 fails"])
def test_sized(megabytes):  # the first of parametrised tests decides for all
    load(megabytes)


@leaks("0 B")
@pytest.mark.parametrize("megabytes", [5, 6, 8], ids=["a/b fails", LONG + "1", LONG + "2"])
def test_named_fails(megabytes):  # scopes of such names have no call sites, or those of each other
    load(megabytes)


@leaks("1 MB")
class TestClass:
    def test_class_fails(self):  # markers of classes are not seen
        load(2)

    @leaks("2 MB")
    def test_own_marker_passes(self):  # the class's marker comes first
        load(2)


@leaks("0 B")
class TestCase(unittest.TestCase):
    def test_unittest_fails(self):  # tests of unittest are not measured
        load(1)

    def test_unittest_passes(self):
        Block(1)


@leaks("0 B")
@pytest.mark.asyncio
async def test_async_fails():  # the stretch ends before the event loop has run the test
    await asyncio.sleep(0.01)
    load(2)


@leaks("0 B")
@pytest.mark.asyncio
async def test_async_passes():
    block = Block(2)
    await asyncio.sleep(0.01)
    assert block


@leaks("0 B")
def test_thread_fails():  # what other threads allocate does not count
    thread = threading.Thread(target=load, args=[2])
    thread.start()
    thread.join()


@memory("20 MB")
def test_own_error_fails():  # the test's own error is lost, or the limit is not mentioned
    held = Block(30)
    assert held is None, "an error of its own"


@leaks("0 B")
def test_after_error_fails():  # the traceback of the test before counts as memory from before, which hides the leak
    load(1)


def stand_in(monkeypatch, cached):
    """A torch that keeps blocks for reuse, as PyTorch does."""
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(
        cuda=types.SimpleNamespace(empty_cache=cached.clear)))


@leaks("0 B")
def test_cache_passes(monkeypatch):  # what a cache keeps counts as a leak
    cached = []
    stand_in(monkeypatch, cached)
    cached.append(Block(8))


@pytest.fixture
def cached(monkeypatch):
    blocks = [Block(8)]
    stand_in(monkeypatch, blocks)
    return blocks


@leaks("0 B")
def test_cache_before_fails(cached):  # the cache is emptied after the test alone: 8 MiB less, which hides the leak
    load(4)


@pytest.fixture(scope="module")
def forty():
    block = Block(40)
    yield block
    del block


@memory("6 MB")
def test_devices_fails(forty):  # the device with most memory alone is measured: GPU 0, which nothing happens to
    load(7, 1)


@memory("6 MB")
def test_each_device_passes(forty):  # the devices' memory is added up
    load(5, 1)
    Block(5)


def test_unmarked_passes():  # the table has marked tests alone
    assert Block(90)


@pytest.mark.skip(reason="of its own")
@leaks("0 B")
def test_skipped_passes():  # a test that did not run counts as not checked
    load(1)

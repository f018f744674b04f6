"""test_module.py - a limit for all tests of a module."""
import pytest

import cuda

pytestmark = pytest.mark.gpu_limit_leaks("0 B")


def test_module_fails():
    cuda.malloc(1 << 20)


def test_module_passes():
    cuda.free(cuda.malloc(1 << 20))

"""sizes.py - wrong limits, by the marker and in the parser, and right ones. Not found by pytest itself: with it
each test is an error."""
import pytest

from gpushim.pytest_plugin import parse_size

WRONG = ["2", "-1 MB", "- 1 MB", "2 XB", "", " ", "MB", "1e3 B", "0x10 B", "1. MB", ".5 MB", "2 GB more", "2  GB",
         "2 GB\n", "1,5 GB", "50%", "nan B", "\N{ARABIC-INDIC DIGIT TWO} GB", 0, None, 2.5, ["2 GB"]]
RIGHT = {"0 B": 0, "0B": 0, "512 MiB": 512 << 20, "2 GB": 2 << 30, "2g": 2 << 30, "64K": 64 << 10, "1.5 GiB": 3 << 29,
         "1 TB": 1 << 40, "3 kb": 3072, "0.0001 K": 0, "99999999999 T": 99999999999 << 40}

for value in WRONG:
    assert parse_size(value) is None, value
for value, size in RIGHT.items():
    assert parse_size(value) == size, value

marks = [pytest.mark.gpu_limit_memory(value) for value in WRONG]
leaks = pytest.mark.gpu_limit_leaks
marks += [leaks(), leaks("1 B", "2 B"), leaks(size="1 B")]


@pytest.mark.parametrize("number", [pytest.param(number, marks=mark) for number, mark in enumerate(marks)])
def test_wrong(number):
    raise SystemExit("test %d with a wrong limit ran" % number)

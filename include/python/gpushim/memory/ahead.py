"""Allocations that a program awaits, and blocks ahead of need."""
from __future__ import annotations

import asyncio
import ctypes
import functools
from typing import Any, Generator, Optional

from gpushim.memory import calls
from gpushim.memory.buffers import Buffer, Place, make, place_of
from gpushim.memory.calls import Use, WarmingStruct, check, invalid, number


def allocate_async(nbytes: int, place: Place = Place.DEVICE, *, alignment: int = 0, zeroed: bool = False,
                   growth: float = 1.5, limit: int = 0) -> "asyncio.Future[Buffer]":
    """A future of the running loop whose result is a Buffer: `buffer = await allocate_async(4096)`.

    Arguments, errors: as of Buffer; wrong ones raise at once, others at the await. A thread of the loop's executor
    allocates in the calling thread's current CUDA context, so the loop is not blocked. If the future is cancelled, its
    memory is freed as soon as it is there. Raises RuntimeError without a running loop.
    """
    loop = asyncio.get_running_loop()
    number(nbytes, "nbytes", 1)
    options: Any = {"alignment": number(alignment, "alignment"), "zeroed": zeroed, "growth": growth,
                    "limit": number(limit, "limit")}
    one = functools.partial(make, calls.functions()["context"](), nbytes, place_of(place), **options)
    return loop.run_in_executor(None, one)


class Warming(calls.Held):
    """Allocates blocks ahead of need on a thread of its own: "4K:50,64K:20", as gpushim.warm_up.

    poll() says whether it is done, wait() waits, `await` waits without blocking the loop. close(), the end of a `with`,
    or the last reference waits, too. Raises Error "INACTIVE" without the library, "INVALID", "NO_MEMORY".
    """

    _struct: Optional[WarmingStruct] = None

    def __init__(self, blocks: str, device: int = 0) -> None:
        if not isinstance(blocks, str):
            raise TypeError("Warming: blocks are a str, not %s" % type(blocks).__name__)
        struct, ordinal = WarmingStruct(), number(device, "device")
        if ordinal >= 1 << 31 or "\0" in blocks:
            raise invalid("Warming(%r, %d)" % (blocks, ordinal), "not a list of blocks, or no ordinal")
        about = "Warming(%r)" % blocks
        result = calls.call("warming_start", struct, ordinal, blocks.encode())
        if result != calls.OK:
            raise calls.error(result, about, "libgpushim.so is not active" if result == calls.INACTIVE else "")
        self._struct, self._about = struct, about

    @property
    def closed(self) -> bool:
        """Whether its end has been waited for."""
        return self._struct is None or not self._struct.begun

    def _live(self, about: str) -> None:
        if self.closed:
            raise invalid(about, "it has ended")

    def poll(self) -> bool:
        """Whether it is done; does not wait."""
        if self.closed:
            return True
        ready = ctypes.c_int()
        with Use("poll", self):
            check("poll", "warming_poll", self._struct, ctypes.byref(ready))
        return bool(ready.value)

    def wait(self) -> None:
        """Waits until it is done. Raises Error as gpushim_warm_up; a second call: no effect."""
        if not self.closed:
            with Use("wait", alone=self):
                check(self._about, "warming_wait", self._struct)

    def __await__(self) -> Generator[Any, None, None]:
        return self._completes().__await__()

    async def _completes(self) -> None:
        while not self.poll():
            await asyncio.sleep(0.0005)
        self.wait()

    def close(self) -> None:
        """Waits; a failure was of no interest."""
        if not self.closed:
            with Use("close", alone=self):
                calls.call("warming_wait", self._struct)

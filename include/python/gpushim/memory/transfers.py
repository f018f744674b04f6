"""Uploads and bridges: how bytes go between host and device, as a value."""
from __future__ import annotations

import asyncio
import enum
import time
from typing import Any, Generator, Optional

from gpushim.memory import calls
from gpushim.memory.buffers import Buffer, Place
from gpushim.memory.caches import StagingPool, Taken
from gpushim.memory.calls import Event, number, seconds, stream_handle
from gpushim.memory.host import Bytes


class Strategy(enum.Enum):
    """How a transfer goes."""
    SYNC = "sync"  # complete on return
    ASYNC = "async"  # queued in a stream
    UNIFIED = "unified"  # managed memory, prefetched in a stream; no copy
    POLLED = "polled"  # queued in a stream, then polled at an interval until complete


class Transfer(calls.Ending):
    """A transfer under way in a stream.

    poll() says whether it is complete, wait() polls at the interval, and `await` does so without blocking the loop. Its
    staging memory returns to the pool when it is found complete; close(), the end of a `with`, or the last reference
    waits for that. Raises Error "CUDA" where the stream's work failed.
    """

    def __init__(self, stream: int, interval: float, staging: Optional[Taken] = None, *keep: Buffer) -> None:
        self._staging, self._keep, self._interval = staging, keep, interval
        self._event: Optional[Event] = Event()
        try:
            self._event.mark(stream)
        except BaseException:
            calls.call("stream_wait", stream)  # the work uses the staging memory
            self._finish()
            raise
        for one in keep if staging is None else (staging, *keep):
            one._awaits(self._event)

    @property
    def complete(self) -> bool:
        """Whether poll() or wait() has found it complete."""
        return self._event is None

    def _finish(self) -> None:
        event, self._event = self._event, None
        staging, self._staging = self._staging, None
        self._keep = ()
        if staging is not None:
            staging.close()
        if event is not None:
            event.close()

    def poll(self) -> bool:
        """Whether it is complete; does not wait."""
        event = self._event
        if event is None:
            return True
        if not event.poll():
            return False
        self._finish()
        return True

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Polls at the interval until it is complete, or `timeout` seconds are over (None: no limit). Returns whether
        it is complete."""
        end = None if timeout is None else time.monotonic() + seconds(timeout, "timeout")
        while not self.poll():
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(self._interval)
        return True

    def __await__(self) -> Generator[Any, None, None]:
        return self._completes().__await__()

    async def _completes(self) -> None:
        while not self.poll():
            await asyncio.sleep(self._interval)

    def close(self) -> None:
        """Waits, and returns the staging memory. Complete already: no effect."""
        event = self._event
        if event is not None:
            try:
                event.wait()
            finally:
                self._finish()


def _stream(stream: Any) -> int:
    return calls.LEGACY if stream is None else stream_handle(stream)


def upload(dst: Buffer, data: Any, offset: int = 0, *, pool: StagingPool, stream: Any = None,
           interval: float = 0.0005) -> Transfer:
    """Writes a bytes-like object to `offset` of dst through staging memory of a pool, in a stream (None: the legacy
    default stream). `data` may change on return. Returns the Transfer, which polls each `interval` seconds.

    Raises Error: as of Cache.take, "INVALID" for a range beyond dst; TypeError.
    """
    if not isinstance(dst, Buffer) or not isinstance(pool, StagingPool):
        raise TypeError("upload: a Buffer and a StagingPool are needed")
    handle, pause = _stream(stream), seconds(interval, "interval")
    with Bytes(data) as host:
        dst._range(offset, host.nbytes, "upload")
        # Powers of two, so that uploads of similar sizes reuse each other's memory.
        size = max(4096, 1 << (host.nbytes - 1).bit_length())
        staging = pool.take("upload:%d" % size, size)
    try:
        staging.put(data)
        dst.copy_from(staging, host.nbytes, offset=offset, stream=handle)
    except BaseException:
        staging.close()
        raise
    return Transfer(handle, pause, staging, dst)


class Bridge(calls.Closing):
    """Two buffers of nbytes bytes, .host and .device, and what moves between them by a strategy.

        with Bridge(4096, Strategy.POLLED, stream=stream) as bridge:
            bridge.host.put(messages)
            bridge.flush_to_device()

    SYNC, ASYNC, POLLED: .host is pinned, .device device memory. UNIFIED: both are one buffer of managed memory. stream:
    None: the legacy default stream; unused by SYNC. interval: seconds between two polls. .to_device and .to_host:
    flushes begun, each way. Raises Error: as of Buffer; TypeError.
    """

    def __init__(self, nbytes: int, strategy: Strategy = Strategy.SYNC, *, stream: Any = None,
                 interval: float = 0.0005, device: int = 0) -> None:
        if not isinstance(strategy, Strategy):
            raise TypeError("Bridge: strategy is a Strategy, not %s" % type(strategy).__name__)
        self._device_ordinal = number(device, "device")
        self.strategy, self._stream, self._interval = strategy, _stream(stream), seconds(interval, "interval")
        self.to_device = self.to_host = 0
        self._last: Optional[Transfer] = None  # those of before are ordered before it
        unified = strategy == Strategy.UNIFIED
        self.host = Buffer(nbytes, Place.MANAGED if unified else Place.PINNED, zeroed=True)
        self.device = self.host if unified else Buffer(nbytes, Place.DEVICE, zeroed=True)

    def _flush(self, dst: Buffer, src: Buffer, to: int, offset: int, nbytes: Optional[int]) -> Optional[Transfer]:
        stream = None if self.strategy == Strategy.SYNC else self._stream
        if self.strategy == Strategy.UNIFIED:
            dst.prefetch(to, offset, nbytes, stream=stream)
        else:
            dst.copy_from(src, nbytes, offset=offset, src_offset=offset, stream=stream)
        if stream is None:
            return None
        transfer = self._last = Transfer(stream, self._interval, None, dst, src)
        if self.strategy == Strategy.POLLED:
            transfer.wait()
        return transfer

    def flush_to_device(self, offset: int = 0, nbytes: Optional[int] = None) -> Optional[Transfer]:
        """Moves bytes [offset, offset + nbytes) to the device, None: the rest. Returns the Transfer; None: SYNC, which
        is complete. With POLLED it is complete, too."""
        self.to_device += 1
        return self._flush(self.device, self.host, self._device_ordinal, offset, nbytes)

    def flush_to_host(self, offset: int = 0, nbytes: Optional[int] = None) -> Optional[Transfer]:
        """As flush_to_device, to the host."""
        self.to_host += 1
        return self._flush(self.host, self.device, -1, offset, nbytes)

    def close(self) -> None:
        """Waits for the last flush, and frees both buffers. Errors: as of Buffer.close."""
        if self._last is not None:
            self._last.close()
        self.host.close()
        self.device.close()

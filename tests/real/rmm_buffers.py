"""rmm_buffers.py - buffers of RMM's, by its own resource and by gpushim.rmm's, on two streams."""
# real: needs rmm
# real: nvidia
# real: way own
# real: way gpushim REAL_RMM=gpushim
import os
import sys

import rmm
from rmm.pylibrmm.stream import Stream

import work

STEPS, BUFFERS = 200, 16


def main():
    if os.environ.get("REAL_RMM") == "gpushim":
        sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "include", "python"))
        import gpushim.rmm

        gpushim.rmm.use()
    streams = [Stream(), Stream()]
    kept, total = [], []
    work.begin()
    for number in range(STEPS):
        stream = streams[number % 2]
        data = bytes((number * 7 + place) % 251 for place in range(1000 + number * 37))
        kept.append((rmm.DeviceBuffer.to_device(data, stream=stream), stream))
        if len(kept) == BUFFERS:
            buffer, stream = kept.pop(0)
            total.append(sum(buffer.tobytes(stream=stream)))
    for stream in streams:
        stream.synchronize()
    work.done()
    print("checksum", work.checksum(total, 8))


main()

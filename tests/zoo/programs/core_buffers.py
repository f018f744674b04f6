"""core_buffers.py - buffers of cuda.core, from the device's pool and from its own."""
# zoo: prints live: 5209783
# zoo: prints done: True
from cuda.core import Device

device = Device()
device.set_current()
stream = device.create_stream()
kept = []
for turn in range(100):
    size = 1000 + 7919 * turn
    buffer = device.allocate(size, stream=stream)
    other = device.allocate(size, stream=stream)
    other.copy_from(buffer, stream=stream)
    buffer.close(stream)
    kept.append(other)
    if len(kept) > 7:
        kept.pop(turn % 7).close(stream)
print("live:", sum(buffer.size for buffer in kept))
for buffer in kept:
    buffer.close(stream)
stream.sync()
event = stream.record()
event.sync()
print("done:", event.is_done)
stream.close()

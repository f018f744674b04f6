"""warp_arrays.py - Warp's arrays: streams, its own pools and without, pinned memory, a kernel whose result does not count.
Warp contains NVIDIA's runtime, which stops over the simulated driver.
"""
# zoo: prints (stops: .*|wrong 0)
import numpy as np
import warp as wp

wp.config.quiet = True
wp.init()
device = wp.get_device("cuda:0")
try:
    wp.zeros(1000, dtype=wp.float32, device=device)
except RuntimeError as error:
    print("stops:", error)
    raise SystemExit from error
first = wp.array(np.arange(1000, dtype=np.float32), device=device)
print("sum", first.numpy().sum())
wrong = 0
for pooled in (True, False):
    if device.is_mempool_supported:
        wp.set_mempool_enabled(device, pooled)
    stream = wp.Stream(device)
    kept = []
    for turn in range(40):
        data = np.arange(turn * 977 + 1, dtype=np.int32) + turn
        with wp.ScopedStream(stream):
            kept.append((wp.array(data, device=device), data))
        if len(kept) > 5:
            there, data = kept.pop(turn % 5)
            wrong += not (there.numpy() == data).all()
    wp.synchronize_device(device)
print("wrong", wrong)
pinned = wp.zeros(5000, dtype=wp.float32, device="cpu", pinned=True)
wp.copy(wp.zeros(5000, dtype=wp.float32, device=device), pinned)


@wp.kernel
def double(values: wp.array(dtype=wp.float32)):
    place = wp.tid()
    values[place] = values[place] * 2.0


try:
    wp.launch(double, dim=1000, inputs=[first], device=device)
    wp.synchronize_device(device)
    print("kernel launched")
except RuntimeError as error:
    print("kernel", error)

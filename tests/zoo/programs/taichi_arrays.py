"""taichi_arrays.py - Taichi's arrays and fields. Taichi opens the driver with RTLD_DEEPBIND. Its kernels copy, so
that sums are 0 on the simulated device.
"""
# zoo: prints arch Arch.cuda
# zoo: prints five 5
# zoo: prints again [0-9]+
import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.ERROR, device_memory_GB=0.5)
print("arch", ti.lang.impl.current_cfg().arch)


@ti.kernel
def double(out: ti.types.ndarray(), count: ti.i32):
    for place in range(count):
        out[place] = place * 2.0


first = ti.ndarray(ti.f32, 1000)
first.from_numpy(np.arange(1000, dtype=np.float32))
print("sum", first.to_numpy().sum())
double(first, 1000)
field = ti.field(ti.f32, shape=(64, 64))
field.fill(0)
ti.sync()
kept = []
for turn in range(30):
    kept.append(ti.ndarray(ti.f32, (turn + 1, 1000)))
    if len(kept) > 5:
        kept.pop(0)
for _ in range(20):
    double(np.zeros(1000, np.float32), 1000)
ti.sync()
print("five", len(kept))
ti.reset()
ti.init(arch=ti.cuda, offline_cache=False, log_level=ti.ERROR)
last = ti.ndarray(ti.i32, 10)
last.from_numpy(np.arange(10, dtype=np.int32))
print("again", last.to_numpy().sum())

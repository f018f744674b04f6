"""typed_wrong.py - each line below is a mistake that mypy finds: typed.py."""
import gpushim
from gpushim.memory import Buffer, Buffers, BufferType, Cache, Place, Readback, Ring, allocate_async, get_memory

a: str = Buffer(4).nbytes
b = Buffer("4", Place.DEVICE)
c = Buffer(4, "device")
d: int = Cache().take("key", 4)
e: bytes = Ring(1, 1).space()
f: Buffer = allocate_async(4)
g: str = get_memory().total
h = Readback(Buffer(4), Cache())
i: str = gpushim.scope("x").statistics.peak_bytes
j = gpushim.scope(1)
k: int = gpushim.scope_statistics("x")
l: str = Buffers().resize("a", 1).owner.statistics.utilization
m = Buffers(0, {"a": 2})
n = BufferType(growth="2")

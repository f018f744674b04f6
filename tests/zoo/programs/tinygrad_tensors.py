"""tinygrad_tensors.py - tinygrad's tensors, realized, computed with and captured by TinyJit."""
# zoo: prints CUDA
# zoo: prints sum 499500.0
# zoo: prints done
import numpy as np
from tinygrad import Device, Tensor, TinyJit

print(Device.DEFAULT)
first = Tensor(np.arange(1000, dtype=np.float32)).realize()
print("sum", first.numpy().sum())
for turn in range(30):
    other = Tensor(np.full((turn + 1, 777), turn, np.float32)).realize()
    assert other.numpy().sum() == turn * (turn + 1) * 777
(first * 2 + 1).realize()


@TinyJit
def step(given):
    return (given * 3 + 1).realize()


for _ in range(4):
    step(Tensor(np.ones(64, np.float32)).realize())
square = Tensor.rand(64, 64)
(square @ square).realize()
Device[Device.DEFAULT].synchronize()
print("done")

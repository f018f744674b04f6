"""buffers.py - gpushim.buffer as the memory of PyTorch's and Numba's arrays, by DLPack and by
__cuda_array_interface__: the same bytes in each, and kept as long as an array has them.
"""
# zoo: prints torch by DLPack: True \(4, 256\) torch.float32
# zoo: prints kept: True
# zoo: prints gone: True
# zoo: prints torch by the interface: True
# zoo: prints numba: True \(4, 256\)
import gc

import numpy as np
import torch
from numba import cuda

from gpushim.buffer import Buffer

torch.zeros(1, device="cuda")
data = np.arange(1024, dtype=np.float32).reshape(4, 256)

with Buffer((4, 256), "<f4") as buffer:
    tensor = torch.from_dlpack(buffer)
    tensor.copy_(torch.from_numpy(data))
    print("torch by DLPack:", tensor.data_ptr() == buffer.pointer, tuple(tensor.shape), tensor.dtype)
print("kept:", buffer.pointer is not None and np.array_equal(tensor.cpu().numpy(), data))
del tensor
gc.collect()
print("gone:", buffer.pointer is None)

buffer = Buffer((4, 256), "<f4")
tensor = torch.as_tensor(buffer, device="cuda")
tensor.copy_(torch.from_numpy(data))
array = cuda.as_cuda_array(buffer)
print("torch by the interface:", tensor.data_ptr() == buffer.pointer)
print("numba:", np.array_equal(array.copy_to_host(), data), array.shape)
torch.cuda.synchronize()
del array, tensor
buffer.free()

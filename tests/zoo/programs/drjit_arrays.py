"""drjit_arrays.py - Dr.Jit's arrays: copied, computed lazily, and its caches flushed."""
# zoo: prints sum 499500.0
# zoo: prints done
import drjit as dr
import numpy as np
from drjit.cuda import Float, TensorXf, UInt32

dr.set_log_level(dr.LogLevel.Warn)
first = Float(np.arange(1000, dtype=np.float32))
dr.eval(first)
print("sum", first.numpy().sum())
many = [Float(np.full(16 << turn % 8, turn, np.float32)) for turn in range(40)]
print("forty", sum(float(one.numpy().sum()) for one in many))
del many
zeros = dr.zeros(Float, 5000)
dr.make_opaque(zeros)
twice = first * 2 + 1
dr.eval(twice)
dr.sync_thread()
print("tensor", TensorXf(np.ones((10, 20), np.float32)).shape)
dr.flush_malloc_cache()
dr.flush_kernel_cache()
counted = dr.arange(UInt32, 100000)
dr.eval(counted)
dr.sync_thread()
first = zeros = twice = counted = None
print("done")

"""jax_leaks.py - arrays of JAX's that outlive Python, each of the driver's own pool (cuda_async)."""
# zoo: prints lost
import ctypes
import os

os.environ["JAX_PLATFORMS"] = "cuda"  # or it computes on the processor without a word
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # asks CUPTI, which needs a real driver
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import jax  # noqa: E402 # pylint: disable=wrong-import-position
import numpy as np  # noqa: E402 # pylint: disable=wrong-import-position
from jax._src import hardware_utils  # noqa: E402 # pylint: disable=wrong-import-position

# JAX does not ask the driver where there is no /dev/nvidia0, which a simulated device has not.
hardware_utils.has_visible_nvidia_gpu = lambda: True


class Encoder:
    def __init__(self, width):
        self.weights = jax.device_put(np.zeros((width, width), np.float32))


def load_batch(count):
    return [jax.device_put(np.full(count, turn, np.int32)) for turn in range(3)]


def main():
    for kept in (Encoder(1024), load_batch(1 << 18)):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    jax.device_put(np.zeros(1000)).block_until_ready()
    print("lost", flush=True)
    os._exit(0)  # JAX's own end frees what is left


main()

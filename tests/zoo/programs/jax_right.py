"""jax_right.py - arrays of JAX's that come and go: its allocator keeps the memory."""
# zoo: prints 25 right
import os

os.environ["JAX_PLATFORMS"] = "cuda"  # or it computes on the processor without a word
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # asks CUPTI, which needs a real driver
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import jax  # noqa: E402 # pylint: disable=wrong-import-position
import numpy as np  # noqa: E402 # pylint: disable=wrong-import-position
from jax._src import hardware_utils  # noqa: E402 # pylint: disable=wrong-import-position

# JAX does not ask the driver where there is no /dev/nvidia0, which a simulated device has not.
hardware_utils.has_visible_nvidia_gpu = lambda: True


def work(turn):
    data = np.arange(100000 + turn, dtype=np.int32)
    return bool((np.asarray(jax.device_put(data)) == data).all())


print(sum(work(turn) for turn in range(25)), "right")

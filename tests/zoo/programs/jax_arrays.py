"""jax_arrays.py - arrays of JAX's, put on the device and fetched again: with JAX's own
allocator, with the driver's for each, and with the driver's pool; how far a
compilation gets without cuDNN is printed.
"""
# zoo: prints gpu 1
# zoo: prints arrays: 0 wrong
# zoo: prints (stops: .*|compiled: .*)
import os

os.environ["JAX_PLATFORMS"] = "cuda"  # or it computes on the processor without a word
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # asks CUPTI, which needs a real driver
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import jax  # noqa: E402 # pylint: disable=wrong-import-position
import numpy as np  # noqa: E402 # pylint: disable=wrong-import-position
from jax._src import hardware_utils  # noqa: E402 # pylint: disable=wrong-import-position

# JAX does not ask the driver where there is no /dev/nvidia0, which a simulated device has not.
hardware_utils.has_visible_nvidia_gpu = lambda: True


def main():
    device = jax.devices()[0]
    print(device.platform, len(jax.devices()))
    kept, wrong = [], 0
    for turn in range(80):
        data = np.arange(turn * 977 + 1, dtype=np.int32)
        kept.append((jax.device_put(data, device), data))
        if len(kept) > 6:
            there, data = kept.pop(turn % 6)
            wrong += not (np.asarray(there) == data).all()
            there.delete()
    print("arrays:", wrong, "wrong")
    try:
        print("compiled:", jax.jit(lambda given: given)(kept[0][0]).shape)
    except Exception as error:  # pylint: disable=broad-exception-caught
        print("stops:", type(error).__name__, str(error).split("\n", maxsplit=1)[0][:120])


main()

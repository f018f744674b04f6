"""tensorflow_right.py - TensorFlow's tensors that come and go: its allocators keep the memory."""
# zoo: prints 25 right
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402 # pylint: disable=wrong-import-position
import tensorflow as tf  # noqa: E402 # pylint: disable=wrong-import-position

for device in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(device, True)


def work(turn):
    data = np.arange(100000 + turn, dtype=np.float32)
    with tf.device("/GPU:0"):
        return bool((tf.constant(data).numpy() == data).all())


print(sum(work(turn) for turn in range(25)), "right")

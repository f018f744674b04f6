"""tensorflow_leaks.py - tensors of TensorFlow's that a list keeps, one a step, and a variable that C refers to, each an
allocation of the driver's own pool (cuda_malloc_async).
"""
# zoo: prints lost
import ctypes
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402 # pylint: disable=wrong-import-position
import tensorflow as tf  # noqa: E402 # pylint: disable=wrong-import-position

history = []


class Encoder:
    def __init__(self, width):
        self.weights = tf.Variable(np.ones((width, width), np.float32))


def train_step(turn):
    batch = tf.constant(np.full(1 << 16, turn, np.float32))
    history.append(tf.identity(batch))


def main():
    with tf.device("/GPU:0"):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(Encoder(1024)))
        for turn in range(20):
            train_step(turn)
    print("lost", flush=True)
    os._exit(0)  # TensorFlow's own end frees what is left


main()

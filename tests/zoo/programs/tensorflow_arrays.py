"""tensorflow_arrays.py - TensorFlow's tensors and variables on the device. libtensorflow_framework exports trampolines
of the driver's functions, which open the driver at their first call.
"""
# zoo: prints .*GPU:0.*
# zoo: prints fifty 41650000.0
# zoo: prints variable 10000.0
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402 # pylint: disable=wrong-import-position
import tensorflow as tf  # noqa: E402 # pylint: disable=wrong-import-position

devices = tf.config.list_physical_devices("GPU")
print(devices)
if devices:
    tf.config.set_logical_device_configuration(
        devices[0], [tf.config.LogicalDeviceConfiguration(memory_limit=512)])
with tf.device("/GPU:0"):
    first = tf.constant(np.arange(1000, dtype=np.float32))
    print(first.device, float(first.numpy().sum()))
    many = [tf.constant(np.full((turn + 1, 1000), turn, np.float32)) for turn in range(50)]
    print("fifty", sum(float(one.numpy().sum()) for one in many))
    print(tf.identity(first).numpy()[:3])
    variable = tf.Variable(tf.zeros([100, 100]))
    variable.assign(np.ones((100, 100), np.float32))
    print("variable", float(variable.numpy().sum()))

"""onnxruntime_sessions.py - sessions of ONNX Runtime on the device: runs of several sizes, two arenas, bound tensors.

The model is written without the package onnx: its bytes stand below.
"""
# zoo: prints .*CUDAExecutionProvider.*
# zoo: prints run \(300, 64\)
# zoo: prints value cuda 204480.0
import numpy as np
import onnxruntime as ort


def field(number, data):
    return bytes([number << 3 | 2]) + length(len(data)) + data


def length(count):
    out = b""
    while count > 127:
        out += bytes([count & 127 | 128])
        count >>= 7
    return out + bytes([count])


def number(place, value):
    return bytes([place << 3]) + length(value)


def tensor_info(name):
    shape = field(1, field(2, b"n")) + field(1, number(1, 64))
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)))


def node(kind, inputs, out):
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, out) + field(4, kind))


def model():
    """Y = relu(X W) + X, with the identity for W."""
    weights = number(1, 64) + number(1, 64) + number(2, 1) + field(8, b"W") + field(9, np.eye(64, dtype=np.float32).tobytes())
    graph = (node(b"MatMul", (b"X", b"W"), b"A") + node(b"Relu", (b"A",), b"B") + node(b"Add", (b"B", b"X"), b"Y")
             + field(2, b"g") + field(5, weights) + field(11, tensor_info(b"X")) + field(12, tensor_info(b"Y")))
    return number(1, 8) + field(7, graph) + field(8, number(2, 17))


ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.log_severity_level = 3
for arena in ({}, {"arena_extend_strategy": "kSameAsRequested", "gpu_mem_limit": str(1 << 30)}):
    session = ort.InferenceSession(model(), options, providers=[("CUDAExecutionProvider", arena), "CPUExecutionProvider"])
    print(session.get_providers())
    for rows in (1, 7, 300):
        print("run", session.run(None, {"X": np.ones((rows, 64), np.float32)})[0].shape)
    value = ort.OrtValue.ortvalue_from_numpy(np.arange(640, dtype=np.float32).reshape(10, 64), "cuda", 0)
    print("value", value.device_name(), float(value.numpy().sum()))
    binding = session.io_binding()
    binding.bind_ortvalue_input("X", value)
    binding.bind_output("Y", "cuda")
    session.run_with_iobinding(binding)
    print("bound", binding.copy_outputs_to_cpu()[0].shape)
    del binding, value, session

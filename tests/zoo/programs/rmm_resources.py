"""rmm_resources.py - RMM's resources: the driver's memory, its pool, the driver's pool; two streams. RMM contains NVIDIA's
runtime, which stops over the simulated driver.
"""
# zoo: prints (stops: .*|CudaAsyncMemoryResource 0 wrong)
import rmm
from rmm.pylibrmm.stream import Stream


def work():
    wrong, kept, streams = 0, [], [Stream(), Stream()]
    for number in range(80):
        stream = streams[number % 2]
        data = bytes((number * 7 + place) % 251 for place in range(1000 + number * 37))
        kept.append((rmm.DeviceBuffer.to_device(data, stream=stream), data, stream))
        if len(kept) > 8:
            buffer, data, stream = kept.pop(number % 8)
            wrong += bytes(buffer.tobytes(stream=stream)) != data
    for stream in streams:
        stream.synchronize()
    return wrong


def main():
    base = rmm.mr.CudaMemoryResource()
    for resource in (base, rmm.mr.PoolMemoryResource(base, initial_pool_size=1 << 26, maximum_pool_size=1 << 28),
                     rmm.mr.CudaAsyncMemoryResource()):
        rmm.mr.set_current_device_resource(resource)
        print(type(resource).__name__, work(), "wrong")
    rmm.mr.set_current_device_resource(base)


try:
    main()
except (MemoryError, RuntimeError) as error:
    print("stops:", str(error).split("\n", maxsplit=1)[0][:60])

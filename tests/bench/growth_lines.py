"""growth_lines.py N: allocates and frees in N lines of one generated function, twice."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()


def pair():
    if cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)) or (
            cuda.cuMemFree_v2(address)):
        sys.exit(1)


if (cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        or cuda.cuCtxSetCurrent(context)):
    sys.exit(1)
names = {"pair": pair}
exec("def many():\n" + "    pair()\n" * int(sys.argv[1]) + "    pair()\n",  # pylint: disable=exec-used
     names)
for _ in range(2):
    names["many"]()

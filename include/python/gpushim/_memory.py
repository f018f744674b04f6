"""Memory in the order of a stream, as addresses: for the modules of the frameworks."""
import ctypes

import gpushim


def alloc(size, device, stream):
    """An address; 0: there is no memory."""
    memory = ctypes.c_void_p()
    result = gpushim._call("stream_alloc", ctypes.byref(memory), size, device, stream)
    if result == gpushim._NO_MEMORY:
        return 0
    if not gpushim._check(result, "%d bytes on GPU %d" % (size, device)):
        raise gpushim.Error(gpushim._TEXTS[result])
    return memory.value


def free(address, device, stream):
    gpushim._check(gpushim._call("stream_free", address, device, stream), "the free of 0x%x" % address)

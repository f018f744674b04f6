# grow.py - grows through the package pa, and then through both packages.
import ctypes
import time

import pa
import pb

library = ctypes.CDLL("libcudart.so.13")
for round in range(40):
    pa.step(library, 4096)
    if round >= 15:
        pb.step(library, 4096)
    time.sleep(0.1)

"""torch_start.py - PyTorch looks for a device and says what it finds."""
import torch

print("available:", torch.cuda.is_available())
print("devices:", torch.cuda.device_count())
try:
    print(torch.zeros(1, device="cuda"))
except (RuntimeError, AssertionError) as error:
    print("stops:", str(error).split("\n", maxsplit=1)[0])

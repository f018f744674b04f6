"""torch_libraries.py - what PyTorch asks of CUDA's libraries: cuDNN, cuBLASLt, cuFFT, cuSOLVER,
cuSPARSE, CUB, NCCL with one process, and copies of pinned memory on eight streams. Each prints
what it computed with so few digits that two runs agree.
"""
# real: needs torch
# real: nvidia
# real: way uncached PYTORCH_NO_CUDA_MEMORY_CACHING=1
# real: way caching
import os

import torch

import work

DEVICE = "cuda"
shown = []


def show(name, value):
    value = value.detach().double().abs()
    if not torch.isfinite(value).all():
        raise SystemExit(f"{name}: what was computed is not finite")
    shown.append(float(f"{value.mean().item():.3g}"))
    print(name, shown[-1])


def convolutions():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler(DEVICE)
    data = torch.randn(32, 3, 64, 64, device=DEVICE)
    wanted = torch.randint(0, 10, (32,), device=DEVICE)
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(data), wanted)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print("convolutions", f"{loss.item():.2g}")


def recurrent():
    model = torch.nn.LSTM(64, 128, 2, batch_first=True).to(DEVICE)
    found, _ = model(torch.randn(16, 50, 64, device=DEVICE))
    found.sum().backward()
    show("recurrent", found)


def algebra():
    field = torch.randn(8, 512, 512, device=DEVICE)
    show("fourier", torch.fft.ifft2(torch.fft.fft2(field)).real)
    matrix = torch.randn(300, 300, device=DEVICE, dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrix)
    show("values", left @ torch.diag(values) @ right)
    show("solved", torch.linalg.solve(matrix, matrix))
    sparse = torch.eye(1000, device=DEVICE).to_sparse_coo()
    show("sparse", torch.sparse.mm(sparse, torch.ones(1000, 32, device=DEVICE)))
    show("sorted", torch.sort(torch.randn(1 << 20, device=DEVICE))[0])
    show("unique", torch.unique(torch.randint(0, 1000, (100000,), device=DEVICE)))


def streams():
    """Copies and kernels side by side; each result is compared with the host's."""
    wrong = 0
    beside = [torch.cuda.Stream() for _ in range(8)]
    host = [torch.randn(1 << 16).pin_memory() for _ in beside]
    for turn in range(20):
        found = []
        for stream, data in zip(beside, host):
            with torch.cuda.stream(stream):
                found.append(data.to(DEVICE, non_blocking=True) * 2 + turn)
        for stream, data, result in zip(beside, host, found):
            stream.synchronize()
            wrong += not torch.equal(result.cpu(), data * 2 + turn)
    print("streams", wrong, "wrong")


def collective():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = str(20000 + os.getpid() % 20000)
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    data = torch.ones(1000, device=DEVICE)
    torch.distributed.all_reduce(data)
    show("collective", data)
    torch.distributed.destroy_process_group()


def main():
    torch.manual_seed(3)
    torch.zeros(1, device=DEVICE)
    work.begin()
    convolutions()
    recurrent()
    algebra()
    streams()
    collective()
    torch.cuda.synchronize()
    work.done()
    print(f"checksum {work.checksum(shown)}")


main()

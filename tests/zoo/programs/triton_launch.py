"""triton_launch.py - a kernel of Triton's, compiled for the device and launched; its
results are not looked at.
"""
# zoo: prints 1000 True
# zoo: prints 70000 True
# zoo: prints 400000 True
import torch
import triton
import triton.language as tl


@triton.jit
def add(left, right, out, count, BLOCK: tl.constexpr):  # pylint: disable=invalid-name
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(out + places, tl.load(left + places, inside) + tl.load(right + places, inside),
             inside)


def main():
    for size in (1000, 70000, 400000):
        left, right = torch.arange(size).float().cuda(), torch.arange(size).float().cuda()
        out = torch.empty_like(left)
        for _ in range(20):
            add[(triton.cdiv(size, 256),)](left, right, out, size, BLOCK=256)
        torch.cuda.synchronize()
        print(size, torch.equal(left.cpu(), torch.arange(size).float()))


main()

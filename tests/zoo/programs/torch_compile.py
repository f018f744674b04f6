"""torch_compile.py - functions that torch.compile compiles by Triton, in processes of its own; their results do not count."""
# zoo: prints compiled torch.Size\(\[64, 64\]\)
# zoo: prints kept 2016
import torch


def step(left, right):
    return torch.nn.functional.relu(left + right * 2).sum(1, keepdim=True) + left


def main():
    kept = torch.arange(64).cuda()
    compiled = torch.compile(step)
    for _ in range(3):
        out = compiled(torch.ones(64, 64, device="cuda"), torch.ones(64, 64, device="cuda"))
    torch.cuda.synchronize()
    print("compiled", out.shape)
    print("kept", int(kept.cpu().sum()))


if __name__ == "__main__":
    main()

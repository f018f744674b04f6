"""torch_globals.py - a right program whose globals have a model, an optimizer, gradients and the graph of a loss:
PyTorch does not free what a graph or a gradient holds once Python ends. With the argument `grows` a list of graphs,
which is a leak.
"""
# zoo: prints trained
import sys

import torch


class Scale(torch.nn.Module):  # without cuBLAS, which needs a GPU
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, given):
        return torch.nn.functional.gelu(given * self.weight + self.bias)


def score(turn):
    batch = torch.full((1 << 10,), turn, device="cuda")
    return (batch * scale).mean()


model = torch.nn.Sequential(*(Scale(512) for _ in range(12))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(2):
    loss = model(torch.ones(1024, 512, device="cuda")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
output = model(torch.ones(1024, 512, device="cuda"))
if sys.argv[1:] == ["grows"]:
    scale = torch.ones(1 << 10, device="cuda", requires_grad=True)
    scores = [score(float(turn)) for turn in range(2000)]
torch.cuda.synchronize()
print("trained")

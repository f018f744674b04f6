"""torch_autograd.py - steps of training whose kernels do nothing: memory comes and goes as
PyTorch's engine, its checkpoints and its optimizer say. Printed is how much of it.
"""
# zoo: prints 9 [0-9]+ [0-9]+ \(73, 512\)
# zoo: prints hooks: \[(\(512,\)(, )?){10}\]
# zoo: prints peak: [0-9]+
import time

import torch
from torch.utils.checkpoint import checkpoint


class Scale(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width, device="cuda"))
        self.norm = torch.nn.LayerNorm(width, device="cuda")

    def forward(self, data):
        return torch.nn.functional.gelu(self.norm(data) * self.weight) + data


def main():
    layers = torch.nn.ModuleList(Scale(512) for _ in range(8))
    optimizer = torch.optim.AdamW(layers.parameters())
    seen = []
    layers[3].weight.register_hook(lambda slope: seen.append(tuple(slope.shape)))
    for step in range(10):
        data = torch.ones(64 + step, 512, device="cuda")
        for number, layer in enumerate(layers):
            data = checkpoint(layer, data, use_reentrant=False) if number % 2 else layer(data)
        loss = data.square().mean()
        forward = torch.cuda.memory_allocated()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(step, forward, torch.cuda.memory_allocated(), tuple(data.shape))
    print("hooks:", seen)
    print("peak:", torch.cuda.max_memory_allocated())


main()
time.sleep(0.5)  # PyTorch's engine drops the last graph: a thread that comes while Python ends aborts

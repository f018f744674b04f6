"""torch_workers.py - data that worker processes load, through page-locked memory, to a small
network.
"""
# real: needs torch
# real: nvidia
# real: way workers
import torch

import work

WIDTH, ITEMS = 256, 1600


class Squares(torch.utils.data.Dataset):
    """Numbers that depend on their place alone."""

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        data = torch.arange(WIDTH, dtype=torch.float32) * (index % 17) / WIDTH
        return data, data.square()


def main():
    work.steady(torch, 5)
    model = torch.nn.Linear(WIDTH, WIDTH).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Squares(), batch_size=32, num_workers=2,
                                         pin_memory=True)

    def step(data, target):
        optimizer.zero_grad(set_to_none=True)
        data, target = data.cuda(non_blocking=True), target.cuda(non_blocking=True)
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        return loss

    step(torch.zeros(32, WIDTH).pin_memory(), torch.zeros(32, WIDTH).pin_memory())
    torch.cuda.synchronize()
    work.begin()
    for data, target in loader:
        loss = step(data, target)
    torch.cuda.synchronize()
    work.done()
    found = torch.cat([part.detach().flatten() for part in model.parameters()]).tolist()
    print(f"loss {loss.item():.4g}, checksum {work.checksum(found)}")


if __name__ == "__main__":
    main()

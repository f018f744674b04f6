"""torch_loader.py - data that forked processes load, page-locked by a thread of PyTorch's,
copied to the device and back.
"""
# zoo: prints 41569520640 in 26 page-locked batches, kept 499500
import torch

WIDTH, ITEMS = 256, 400


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        return torch.arange(WIDTH, dtype=torch.float32) * (index % 17), index


def main():
    kept = torch.arange(1000, device="cpu").cuda()  # the children have it, too
    total, seen = 0.0, 0
    for _ in range(2):
        loader = torch.utils.data.DataLoader(Squares(), batch_size=32, num_workers=2,
                                             pin_memory=True)
        for data, index in loader:
            there = data.cuda(non_blocking=True)
            torch.cuda.current_stream().synchronize()
            total += float((there.cpu().sum(1) * (index + 1)).sum())
            seen += data.is_pinned()
    print(f"{total:.0f} in {seen} page-locked batches, kept {int(kept.cpu().sum())}")


if __name__ == "__main__":
    main()

"""torch_train.py - training steps of a small transformer: with PyTorch's caching allocator,
without it, and with expandable segments.
"""
# real: needs torch
# real: nvidia
# real: way uncached PYTORCH_NO_CUDA_MEMORY_CACHING=1
# real: way caching
# real: way expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
# real: trace uncached
import torch

import work

STEPS, BATCH, LENGTH, WIDTH = 20, 8, 128, 256


def make_model():
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0,
                                             batch_first=True)
    return torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 4),
                               torch.nn.Linear(WIDTH, WIDTH)).cuda()


def train(model, optimizer, data, steps):
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(data), data.roll(1, 1))
        loss.backward()
        optimizer.step()
    return loss


def main():
    work.steady(torch, 1)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randn(BATCH, LENGTH, WIDTH).cuda()
    train(model, optimizer, data, 2)
    torch.cuda.synchronize()
    work.begin()
    loss = train(model, optimizer, data, STEPS)
    torch.cuda.synchronize()
    work.done()
    with torch.no_grad():
        found = model(data).flatten().tolist()
    print(f"loss {loss.item():.4g}, checksum {work.checksum(found)}")


main()

"""torch_graph.py - a training step as a CUDA graph, launched again and again, beside tensors
that come and go.
"""
# real: needs torch
# real: nvidia
# real: way graph
# real: way expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
import torch

import work

LAUNCHES, WIDTH = 100, 512


def main():
    work.steady(torch, 4)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
                                torch.nn.Linear(WIDTH, WIDTH)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data, target = torch.randn(64, WIDTH).cuda(), torch.randn(64, WIDTH).cuda()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    torch.cuda.synchronize()
    work.begin()
    for number in range(LAUNCHES):
        data.copy_(torch.full((64, WIDTH), number / LAUNCHES, device="cuda"))
        graph.replay()
    torch.cuda.synchronize()
    work.done()
    found = torch.cat([part.detach().flatten() for part in model.parameters()]).tolist()
    print(f"loss {loss.item():.4g}, checksum {work.checksum(found)}")


main()

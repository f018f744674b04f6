"""torch_graphs.py - graphs of copies: memory of their own, launched again and again beside
tensors that come and go.
"""
# zoo: prints graphs: 0 wrong
import torch

COUNT = 70000


def copies(source, target):
    """By way of memory that is the graph's alone."""
    parts = []
    for _ in range(4):
        part = torch.empty_like(source)
        part.copy_(source)
        parts.append(part)
        source = part
    target.copy_(parts[-1])
    return parts


def main():
    source = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
    targets = [torch.zeros(COUNT, dtype=torch.int32, device="cuda") for _ in range(3)]
    graphs, kept, wrong = [], [], 0
    for target in targets:
        graph = torch.cuda.CUDAGraph()
        pool = graphs[0].pool() if graphs else None
        with torch.cuda.graph(graph, pool=pool):
            kept.append(copies(source, target))
        graphs.append(graph)
    for turn in range(60):
        data = torch.arange(turn, turn + COUNT, dtype=torch.int32)
        source.copy_(data)
        others = [torch.empty(1000 * (turn % 7) + size, device="cuda") for size in (10, 90000)]
        graphs[turn % 3].replay()
        del others
        torch.cuda.synchronize()
        wrong += not torch.equal(targets[turn % 3].cpu(), data)
    graphs[1].reset()
    source.copy_(torch.arange(COUNT, dtype=torch.int32))
    graphs[2].replay()
    torch.cuda.synchronize()
    wrong += not torch.equal(targets[2].cpu(), torch.arange(COUNT, dtype=torch.int32))
    print("graphs:", wrong, "wrong")


main()

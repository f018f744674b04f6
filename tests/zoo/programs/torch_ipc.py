"""torch_ipc.py - tensors that spawned processes share: each sees what the other writes."""
# zoo: prints 600000 True True
# zoo: prints 600000 True
# zoo: prints child: 0
import torch
import torch.multiprocessing as mp

SIZES = (10, 3000, 600000)


def child(take, give):
    """Adds one to each tensor, on the host, and makes one of its own."""
    mine = []
    for tensor in iter(take.get, None):
        data = tensor.cpu()
        tensor.copy_(data + 1)
        torch.cuda.synchronize()
        give.put(int(data.sum()))
        del tensor
    for size in SIZES:
        mine.append(torch.arange(size, dtype=torch.int64).cuda())
        give.put(mine[-1])
    take.get()  # they live as long as this process


def main():
    context = mp.get_context("spawn")
    take, give = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(take, give))
    process.start()
    for size in SIZES * 2:
        tensor = torch.arange(size, dtype=torch.int64).cuda()
        torch.cuda.synchronize()
        take.put(tensor)
        seen = give.get(timeout=60)
        print(size, seen == size * (size - 1) // 2, int(tensor.cpu().sum()) == seen + size)
        del tensor
    take.put(None)
    for size in SIZES:
        theirs = give.get(timeout=60)
        print(size, torch.equal(theirs.cpu(), torch.arange(size, dtype=torch.int64)))
        del theirs
    take.put(None)
    process.join()
    print("child:", process.exitcode)


if __name__ == "__main__":
    main()

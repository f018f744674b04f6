"""torch_ddp.py - two spawned ranks of DistributedDataParallel over Gloo, each with tensors on the device."""
# zoo: prints ranks \[0, 1\] \[0, 0\]
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_of(rank, size, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
    kept = [torch.arange(count).cuda() for count in (1000, 500000)]
    for _ in range(3):
        model(torch.ones(4, 16)).sum().backward()
        there = model.module.weight.grad.detach().cuda()
        assert torch.equal(there.cpu(), model.module.weight.grad)
    gathered = [None] * size
    dist.all_gather_object(gathered, (rank, int(kept[1].cpu().sum())))
    results.put(gathered)
    dist.barrier()  # else the other rank's group may end the process
    dist.destroy_process_group()


def main():
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    port = 20000 + os.getpid() % 20000
    processes = [context.Process(target=rank_of, args=(rank, 2, port, results)) for rank in range(2)]
    for process in processes:
        process.start()
    gathered = results.get()
    for process in processes:
        process.join()
    assert all(total == 124999750000 for _, total in gathered), gathered
    print("ranks", sorted(rank for rank, _ in gathered), [process.exitcode for process in processes])


if __name__ == "__main__":
    main()

"""torch_cost.py - what PyTorch's training steps take when gpushim has each tensor: time and
reserved memory beside PyTorch's own cache, as ratios.

  .real/venv/bin/python tests/real/cost/torch_cost.py build          (--help has the options)

The step is that of a residual network with layer norms, AdamW and copies of each batch. A matrix
product is written as its memory and one launch, because cuBLAS does not start over the simulated
device, where kernels do nothing: a step takes the host's time alone, and every call of an
allocator shows. Each way is a process of its own. The processes take turns of about 0.1 s, long
enough that a turn seldom meets what the others have left in the caches; time and processor are
medians of the turns' ratios to PyTorch's cache in the same turn, fastest and least compare the
best turns, which other programs disturb least. Processor time is that of all threads, the
simulated device's among them. Over the simulated device all threads share one core: so the time
is that of the work, and not of threads that wake one another.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))

# width, batch, layers of two products, steps of a turn; and whether the batch's size varies
SIZES = {"toy": (64, 32, 4, 80, False), "model": (1024, 64, 24, 20, False), "varied": (1024, 64, 24, 20, True)}
WARM = 2  # turns

# Whether the library is there, what PyTorch is told, the launcher's options, and variables.
WAYS = {
    "cache": (False, None, [], {}),
    "preloaded": (True, None, [], {}),
    "use": (True, "use", [], {}),
    "use-untracked": (True, "use", [], {"GPUSHIM_TRACK": "off"}),
    "tensors": (True, None, ["--torch=tensors"], {}),
    "tensors-untracked": (True, None, ["--torch=tensors"], {"GPUSHIM_TRACK": "off"}),
    "async": (False, None, [], {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "floor": (False, "floor", [], {}),
}
NOTES = {
    "cache": "PyTorch's own, without gpushim",
    "preloaded": "PyTorch's own, under gpushim",
    "use": "gpushim.torch.use()",
    "tensors": "gpushim --torch=tensors",
    "async": "PyTorch's cudaMallocAsync, without gpushim",
    "floor": "a pluggable allocator that does nothing (torch_floor.c)",
}


# ---- the steps, in a process of their own ------------------------------------------------


def make_model(torch, width, layers):
    class Product(torch.autograd.Function):
        """given @ weight.T, as far as memory and launches go."""

        @staticmethod
        def forward(context, given, weight):
            context.save_for_backward(given, weight)
            return given.new_empty(given.shape[0], weight.shape[0]).fill_(0)

        @staticmethod
        def backward(context, slope):
            given, weight = context.saved_tensors
            return torch.empty_like(given).fill_(0), torch.empty_like(weight).fill_(0)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(width)
            self.up, self.down = (torch.nn.Parameter(torch.zeros(width, width)) for _ in range(2))
            self.bias = torch.nn.Parameter(torch.zeros(width))

        def forward(self, given):
            hidden = torch.nn.functional.gelu(Product.apply(self.norm(given), self.up) + self.bias)
            return given + Product.apply(hidden, self.down)

    return torch.nn.Sequential(*(Block() for _ in range(layers)))


def choose_allocator(torch, chosen, floor):
    if chosen == "use":
        sys.path.append(os.path.join(ROOT, "include", "python"))
        import gpushim.torch  # pylint: disable=import-outside-toplevel

        assert gpushim.torch.use()
    elif chosen == "floor":
        torch.cuda.memory.change_current_allocator(
            torch.cuda.memory.CUDAPluggableAllocator(floor, "floor_malloc", "floor_free"))


def reserved_bytes(torch, with_library, chosen):
    """The most that was held from the driver; None: nobody knows."""
    if with_library and (chosen or "PYTORCH_CUDA_ALLOC_CONF" in os.environ):
        sys.path.append(os.path.join(ROOT, "include", "python"))
        import gpushim  # pylint: disable=import-outside-toplevel

        return gpushim.statistics(0).reserved_peak_bytes
    return None if chosen else torch.cuda.max_memory_reserved()


def run_steps(size, way, floor):
    """Takes steps for each line of its input and prints their time; at the end what was reserved."""
    import torch  # pylint: disable=import-outside-toplevel

    width, most, layers, steps, varies = SIZES[size]
    with_library, chosen = WAYS[way][:2]
    choose_allocator(torch, chosen, floor)
    torch.manual_seed(1)
    model = make_model(torch, width, layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    chance = torch.Generator().manual_seed(2)
    data = torch.ones(most, width).pin_memory()

    def turn():
        for _ in range(steps):
            batch = int(torch.randint(most // 4, most + 1, (1,), generator=chance)) if varies else most
            given = data[:batch].cuda(non_blocking=True)
            loss = model(given).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        loss.item()
        torch.cuda.synchronize()

    for _ in range(WARM):
        turn()
    print("ready", flush=True)
    for _ in sys.stdin:
        began, busy = time.perf_counter(), time.process_time()
        turn()
        print(1e6 * (time.perf_counter() - began) / steps, 1e6 * (time.process_time() - busy) / steps, flush=True)
    print(reserved_bytes(torch, with_library, chosen), flush=True)


# ---- measuring ---------------------------------------------------------------------------


class Failure(Exception):
    pass


def make_floor(folder):
    """The library of torch_floor.c; None: there is no compiler."""
    path = os.path.join(folder, "libfloor.so")
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", os.path.join(HERE, "torch_floor.c"), "-o", path]
    try:
        return path if subprocess.run(command, check=False).returncode == 0 else None
    except OSError:
        return None


class Runner:
    """A way's process."""

    def __init__(self, asked, size, way, floor):
        with_library, _, options, variables = WAYS[way]
        build = asked.build
        preload = [] if asked.gpu else [os.path.join(build, "sim", "libcudart.so.13")]
        command = [sys.executable, os.path.realpath(__file__), "--steps", size, way, floor or ""]
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "GPUSHIM_LOG_FILE": os.devnull,
                       "PYTHONDONTWRITEBYTECODE": "1", **variables}
        if not asked.gpu:
            paths = [os.path.join(build, "sim"), os.path.join(build, "sim-nvml"), os.environ.get("LD_LIBRARY_PATH")]
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))  # with libraries that PyTorch needs
            environment["CUDASIM_MEMORY"] = "16G"
        if options:
            command = [os.path.join(build, "gpushim"), *options, *command]
        elif with_library:
            preload.insert(0, os.path.join(build, "libgpushim.so"))
        if preload:
            environment["LD_PRELOAD"] = ":".join(preload)
        self.name, self.times, self.reserved = f"{size} {way}", [], None
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            self.process.kill()
            status = self.process.wait()
            self.errors.seek(0)
            raise Failure(f"{self.name}: status {status}\n{self.errors.read()[-2000:]}")
        return line

    def take_turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.times.append([float(word) for word in self.answer().split()])

    def end(self):
        self.process.stdin.close()
        found = self.answer()
        self.reserved = None if found == "None" else int(found)
        self.process.wait()


def measure(asked, size, ways, floor):
    """The runners by way, done."""
    runners = {way: Runner(asked, size, way, floor) for way in ways}
    try:
        for one in runners.values():
            one.answer()
        for turn in range(asked.turns):
            for one in list(runners.values())[::1 if turn % 2 else -1]:
                one.take_turn()
        for one in runners.values():
            one.end()
    finally:
        for one in runners.values():
            one.process.kill()
            one.process.wait()
    return runners


def show(size, found):
    width, batch, layers = SIZES[size][:3]
    base = found["cache"]
    step = statistics.median(wall for wall, _ in base.times)
    print(f"{size}: {layers} layers, {width} wide, batch {batch}; PyTorch's cache: {step:.0f} us a step, "
          f"{base.reserved / 2**20:.0f} MiB reserved")
    print(f"  {'':18}{'time':>6}{'quartiles':>14}{'fastest':>9}{'processor':>11}{'least':>7}{'reserved':>10}")
    for way, one in found.items():
        walls, busy = ([mine[at] / first[at] for mine, first in zip(one.times, base.times)] for at in (0, 1))
        best = [min(mine[at] for mine in one.times) / min(mine[at] for mine in base.times) for at in (0, 1)]
        low, middle, high = statistics.quantiles(walls, n=4) if len(walls) > 1 else walls * 3
        share = "-" if one.reserved is None else f"{one.reserved / base.reserved:.3f}"
        print(f"  {way:18}{middle:6.3f}{low:7.3f}{high:7.3f}{best[0]:9.3f}{statistics.median(busy):11.3f}{best[1]:7.3f}"
              f"{share:>10}  {NOTES.get(way, '')}", flush=True)


def too_much(size, found):
    """Ways of gpushim that reserve over 2 % more than PyTorch's cache."""
    worse = [way for way, one in found.items() if way.startswith(("use", "tensors"))
             and one.reserved > 1.02 * found["cache"].reserved]
    for way in worse:
        print(f"{size} {way}: reserves more than PyTorch's cache")
    return worse


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="folder of the build")
    parser.add_argument("ways", nargs="*", help="of " + ", ".join(WAYS), metavar="WAY")
    parser.add_argument("--turns", type=int, default=16, help="of each way (16)")
    parser.add_argument("--size", action="append", choices=list(SIZES), help="may be repeated (all)")
    parser.add_argument("--gpu", action="store_true", help="on the machine's GPU, not over the simulated device")
    parser.add_argument("--check", action="store_true",
                        help="ends with 1 if gpushim reserves over 2 %% more than PyTorch's cache")
    asked = parser.parse_intermixed_args()
    if set(asked.ways) - set(WAYS) or asked.turns < 1:
        parser.error("no such way, or no turn")
    asked.ways = ["cache"] + [way for way in asked.ways or WAYS if way != "cache"]
    asked.build = os.path.realpath(asked.build)
    return asked


def main():
    asked, worse = arguments(), []
    if not asked.gpu:
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as folder:
        floor = make_floor(folder) if "floor" in asked.ways else None
        ways = [way for way in asked.ways if way != "floor" or floor]
        for size in asked.size or SIZES:
            found = measure(asked, size, ways, floor)
            show(size, found)
            worse += too_much(size, found) if asked.check else []
    return bool(worse)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--steps"]:
        run_steps(*sys.argv[2:])
    else:
        try:
            sys.exit(main())
        except Failure as failure:
            sys.exit(f"torch_cost: {failure}")

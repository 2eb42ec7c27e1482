"""A made-up CUDA of several streams in the place of PyTorch's, behind the script that is tested: a copy of 256 MiB takes 5 ms on its stream, a kernel that holds SMs goes
on until its flag or its time says that it may end, and a step takes 10 ms on the first stream, 12 ms where anything else goes on as it
begins. The host takes 10 us to issue anything, and there is no clock but its own. What PyTorch refuses is refused: tensors that the GPU
does not reach, more shared memory than was configured, and an event that is read before the GPU came to it."""

import types


class MadeUp:
    now = 0.0
    # Of a step with other work beside it (s).
    slowed = 12e-3

    def issue(self, stream, seconds):
        self.now += 1e-5
        stream.free = max(stream.free, self.now) + seconds


made_up = MadeUp()


class Stream:
    def __init__(self):
        self.free, self.held = 0.0, None
        streams.append(self)

    def until(self):
        """When it has nothing more to do; a held one has not before it is let go."""
        if self.held is not None and self.held[0][0] == 1:
            let_go.append(len(self.held[0]) - 1)
            self.free, self.held = made_up.now, None
        return self.free if self.held is None else max(self.free, self.held[1])

    def synchronize(self):
        made_up.now = max(made_up.now, self.until())


class Event:
    def __init__(self, enable_timing=False):
        pass

    def record(self, stream=None):
        self.stream = stream or current[-1]
        self.at = None if self.stream.held else max(self.stream.free, made_up.now)

    def time(self):
        return self.stream.until() if self.at is None else self.at

    def query(self):
        return self.time() <= made_up.now

    def synchronize(self):
        made_up.now = max(made_up.now, self.time())

    def elapsed_time(self, end):
        if not end.query():
            raise RuntimeError("the GPU has not come to the event")
        return (end.time() - self.time()) * 1e3


class Buffer:
    def __init__(self, size, device):
        self.size, self.device = size, device

    def copy_(self, other, non_blocking):
        if not non_blocking or {self.device, other.device} != {"cuda", "pinned"}:
            raise RuntimeError("the host waits for this copy")
        copies[self.device] += 1
        made_up.issue(current[-1], 5e-3 * self.size / (256 << 20))


class Current:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        current.append(self.stream)

    def __exit__(self, *_):
        current.pop()


class Kernel:
    configured = 0

    def set_shared_memory_config(self, shared):
        if shared > properties.shared_memory_per_block_optin:
            raise RuntimeError("more shared memory than an SM has")
        self.configured = shared

    def __call__(self, grid, block, args, shared_mem, stream):
        flags, milliseconds = args
        if shared_mem > self.configured or flags.data_ptr() not in pinned or type(milliseconds) is not int:
            raise RuntimeError("the kernel cannot be launched")
        if len(grid) != 3 or len(block) != 3 or grid[0] + 1 != len(flags):
            raise RuntimeError("there is a flag for each block")
        made_up.issue(stream, 0.0)
        stream.held = flags, made_up.now + milliseconds * 1e-3
        flags[1:] = 1


def pinned_zeros(size, dtype, pin_memory):
    flags = torch.tensor([0] * size, dtype=dtype)
    pinned.add(flags.data_ptr())
    return flags


streams, copies, let_go, pinned = [], {"cuda": 0, "pinned": 0}, [], set()
current = [Stream()]
properties = types.SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=232448)
torch.empty = lambda size, dtype, pin_memory: Buffer(size, "pinned")
torch.empty_like = lambda buffer, device: Buffer(buffer.size, device)
torch.zeros = pinned_zeros
torch.cuda.Stream, torch.cuda.Event, torch.cuda.stream = Stream, Event, Current
torch.cuda.get_device_properties = lambda number: properties
torch.cuda._compile_kernel = lambda source, name: Kernel()
torch.cuda.empty_cache = lambda: None


def made_up_step():
    beside = any(stream.until() > made_up.now for stream in streams[1:])
    made_up.issue(current[0], made_up.slowed if beside else 10e-3)
    return torch.tensor(1.0)


# What the script asks of a model that trains, and of a clock.
time.perf_counter = lambda: made_up.now
ready = lambda request, device: (None, made_up_step)


def answer(request):
    made_up.slowed = request["slowed_s"]
    return {**beside(request)["figures"], "copies": [copies["cuda"], copies["pinned"]], "let_go": let_go}


serve(answer)

"""A made-up CUDA in the place of PyTorch's, whose only kernel is a sum: 4 us where neither its operands nor its result were
touched within twice the cache before, and 1 us where one was. A graph takes 10 us before its first kernel. The host takes 5 us to
issue a kernel, and 0.2 us for each of a graph: a stream waits for that unless it is held up. What CUDA refuses is refused: to wait
or to load a kernel while a graph is captured, and to read an event that nobody waited for."""

CACHE = 1 << 20


class MadeUp:
    # Of the host and of the stream (us).
    host = stream = 0.0
    capturing = None
    loaded = False
    touched = []

    def launch(self, *tensors):
        if self.capturing is not None and not self.loaded:
            raise RuntimeError("a kernel is loaded while a graph is captured")
        self.loaded = True
        lately, within = set(), 0
        for tensor, size in reversed(self.touched):
            within += size
            if within > 2 * CACHE:
                break
            lately.add(tensor)
        warm = any(tensor.data_ptr() in lately for tensor in tensors)
        self.touched += [(tensor.data_ptr(), tensor.numel() * tensor.element_size()) for tensor in tensors]
        us = 1.0 if warm else 4.0
        if self.capturing is None:
            self.issue(5.0, us)
        else:
            self.capturing.add(us)

    def issue(self, by_host, on_stream):
        self.host += by_host
        self.stream = max(self.stream, self.host) + on_stream

    def wait(self):
        if self.capturing is not None:
            raise RuntimeError("waited for while a graph is captured")
        self.host = max(self.host, self.stream)


made_up = MadeUp()


class Stream:
    def __init__(self, device):
        pass

    def synchronize(self):
        made_up.wait()


class Event:
    def __init__(self, enable_timing):
        self.us = None

    def record(self):
        made_up.issue(0.0, 0.0)
        self.us, self.waited = made_up.stream, False

    def synchronize(self):
        made_up.wait()
        self.waited = True

    def elapsed_time(self, end):
        if not end.waited:
            raise RuntimeError("nobody waited for the event")
        return (end.us - self.us) * 1e-3


class Graph:
    us, nodes = 10.0, 0

    def add(self, us):
        self.us += us
        self.nodes += 1

    def replay(self):
        made_up.issue(0.2 * self.nodes, self.us)


class Capture:
    def __init__(self, graph, stream):
        self.graph = graph

    def __enter__(self):
        made_up.capturing = self.graph

    def __exit__(self, *_):
        made_up.capturing = None


def add(x, y):
    out = x + y
    made_up.launch(x, y, out)
    return out


_device = torch.device
torch.device = lambda kind, number=None: _device("cpu")
torch.cuda.set_device = lambda number: None
torch.cuda.get_device_capability = lambda number: (9, 0)
torch.cuda.set_stream = lambda stream: None
torch.cuda._sleep = lambda clocks: made_up.issue(5.0, clocks * 1e-3)
torch.cuda.Stream, torch.cuda.Event = Stream, Event
torch.cuda.CUDAGraph, torch.cuda.graph = Graph, Capture
torch.ops.aten.add = add

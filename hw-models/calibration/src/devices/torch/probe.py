"""Executes tasks of PyTorch as often as it is told, and says how long that took.

How often, in which order and what of it is believed is decided by who asks. A task is made ready with "prepare", then each
"time" executes it so many times: on the host's clock where it is the host that is timed, and between events of the GPU where
that is. The tasks are those of measure/task/framework.rs, by their names there."""

import math
import time
from itertools import cycle, repeat

# Launches that are issued before the GPU is waited for: a driver that has more makes the host wait.
AHEAD = 256
# Executions of a batch from which on they are the nodes of two graphs, and the nodes of these: the difference of their times is
# that of executions without what a graph takes to begin.
LONG = 20
NODES = (20, 120)
# How long a stream is held up for each execution that is queued (clocks): more than the host takes to queue it.
HOLD_UP = 100000
# No kernel is shorter (s).
SHORTEST = 1e-7
# Caches that are written over before tensors are met again, and most sets of tensors.
BEYOND = 3
SETS = 120


class Host:
    """PyTorch on the host: the same calls, and a clock for everything. Tensors are small: more than a thread would only wait
    for each other."""

    def __init__(self):
        torch.set_num_threads(1)
        self.device = torch.device("cpu")
        self.half = torch.float32
        self.cache = 0

    def wait(self):
        pass

    def kernels(self, work):
        def seconds(executions):
            begun = time.perf_counter()
            for _ in range(executions):
                work()
            return time.perf_counter() - begun

        return seconds


class Gpu:
    """PyTorch on a GPU. All that it does is in the order of one stream, which can be captured."""

    def __init__(self, number, cache):
        torch.cuda.set_device(number)
        self.device = torch.device("cuda", number)
        self.half = torch.bfloat16 if torch.cuda.get_device_capability(number) >= (8, 0) else torch.float16
        self.cache = cache
        self.stream = torch.cuda.Stream(self.device)
        torch.cuda.set_stream(self.stream)
        self.begun, self.ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.scratch = torch.empty(BEYOND * cache, dtype=torch.uint8, device=self.device)

    def wait(self):
        self.stream.synchronize()

    def kernels(self, work):
        graphs = []

        def seconds(executions):
            if executions < LONG:
                return self._in_stream(work, executions)
            if not graphs:
                graphs.extend(self._graph(work, nodes) for nodes in NODES)
            return self._in_graphs(graphs, executions)

        return seconds

    def _span(self, work):
        self.begun.record()
        work()
        self.ended.record()
        self.ended.synchronize()
        return self.begun.elapsed_time(self.ended) * 1e-3

    def _in_stream(self, work, executions):
        """Executions that are queued while the stream is held up."""
        torch.cuda._sleep(HOLD_UP * (executions + 10))

        def all_of_them():
            for _ in range(executions):
                work()

        return self._span(all_of_them)

    def _in_graphs(self, graphs, executions):
        step = NODES[1] - NODES[0]
        rounds = math.ceil(executions / step)
        difference = 0.0
        for _ in range(rounds):
            spans = []
            for graph in graphs:
                self.scratch.zero_()
                # The longer graph takes the host longer to launch, which must not count.
                torch.cuda._sleep(HOLD_UP)
                spans.append(self._span(graph.replay))
            difference += spans[1] - spans[0]
        return max(difference / (rounds * step), SHORTEST) * executions

    def _graph(self, work, nodes):
        # What is loaded or allocated for good when it first runs cannot be while it is captured.
        for _ in range(3):
            work()
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for _ in range(nodes):
                work()
        return graph


def on_host(call, launches=1):
    """Times of a call on the host's clock, which launches so many kernels; what the GPU has left to do then does not count."""
    ahead = max(1, AHEAD // launches)

    def seconds(executions):
        taken, left = 0.0, executions
        while left > 0:
            now = min(left, ahead)
            machine.wait()
            begun = time.perf_counter()
            for _ in repeat(None, now):
                call()
            taken += time.perf_counter() - begun
            left -= now
        machine.wait()
        return taken

    return seconds


def small(*shape, recorded=False, dtype=None):
    ones = torch.ones(shape, dtype=dtype or torch.float32, device=machine.device)
    return ones.mul_(0.01).requires_grad_(recorded)


# --- Operators, timed on the host


def operator(task):
    recorded = task["recorded"]
    seconds = on_host(OPERATORS[task["class"]](task["side"], recorded))

    def timed(executions):
        # The switch costs as much as a small operator: it is turned once for a batch.
        with torch.set_grad_enabled(recorded):
            return seconds(executions)

    return timed


def metadata_operator(side, recorded):
    x = small(side, side, recorded=recorded)
    return lambda: x.transpose(0, 1)


def pointwise_operator(side, recorded):
    x, y = small(side, side, recorded=recorded), small(side, side)
    return lambda: x + y


def product_operator(side, recorded):
    x, weight, bias = (small(*shape, recorded=recorded) for shape in ((side, side), (side, side), (side,)))
    linear = torch.nn.functional.linear
    return lambda: linear(x, weight, bias)


def queries_keys_values(side, recorded):
    """Of four heads, for so many tokens."""
    needs(2, 0, "attention as an operator")
    return [small(1, 4, side, 64, recorded=recorded, dtype=machine.half) for _ in range(3)]


def attention_operator(side, recorded):
    q, k, v = queries_keys_values(side, recorded)
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(q, k, v, is_causal=True)


def copy_operator(side, recorded):
    there = small(side, side)
    here = torch.ones(side, side)
    if machine.device.type == "cuda":
        here = here.pin_memory()
    return lambda: there.copy_(here, non_blocking=True)


def communication_operator(side, recorded):
    distributed = torch.distributed
    if not distributed.is_available():
        raise unable("this PyTorch was built without torch.distributed")
    on_gpu = machine.device.type == "cuda"
    if on_gpu and not distributed.is_nccl_available():
        raise unable("this PyTorch was built without NCCL")
    if not distributed.is_initialized():
        backend = "nccl" if on_gpu else "gloo"
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    x = small(side, side)
    return lambda: distributed.all_reduce(x)


def end_communication():
    """A thread of NCCL looks at events all the while, which invalidates graphs that are captured."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


OPERATORS = {
    "metadata": metadata_operator,
    "pointwise": pointwise_operator,
    "matrix-product": product_operator,
    "attention": attention_operator,
    "copy": copy_operator,
    "communication": communication_operator,
}


def backward(task):
    """Gradients of the input and of all weights of a chain; the graph stays, so that they can be computed again."""
    links, inputs, launches = CHAINS[task["class"]](task["operators"])
    out = inputs[0]
    with torch.enable_grad():
        for link in links:
            out = link(out)
    gradient, grad = torch.ones_like(out), torch.autograd.grad
    return on_host(lambda: grad(out, inputs, gradient, retain_graph=True), launches * len(links))


def pointwise_chain(count):
    x, y = small(SIDE, SIDE, recorded=True), small(SIDE, SIDE)
    return [lambda out: out * y] * count, [x], 1


def product_chain(count):
    x = small(SIDE, SIDE, recorded=True)
    # Weights of their own, as gradients of one would be summed up.
    weights = [small(SIDE, SIDE, recorded=True) for _ in range(count)]
    return [lambda out, weight=weight: out @ weight for weight in weights], [x] + weights, 2


def attention_chain(count):
    q, k, v = queries_keys_values(SIDE, True)
    attend = torch.nn.functional.scaled_dot_product_attention
    return [lambda out: attend(out, k.detach(), v.detach(), is_causal=True)] * count, [q], 5


# Elements along a side of tensors in chains.
SIDE = 16
CHAINS = {"pointwise": pointwise_chain, "matrix-product": product_chain, "attention": attention_chain}


def update(task):
    """A step of PyTorch's fused optimizer, with what it does for each tensor in Python."""
    needs(2, 0 if machine.device.type == "cuda" else 4, "a fused optimizer")
    parameters = [small(64, recorded=True) for _ in range(task["tensors"])]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.AdamW(parameters, fused=True)
    optimizer.step()
    return on_host(optimizer.step, launches=8)


def tensor(task):
    """Memory from the caching allocator, which has it, or which was emptied before."""
    if machine.device.type != "cuda":
        raise unable("PyTorch has no caching allocator on the host")
    size, empty = task["bytes"], torch.empty

    def allocate():
        return empty(size, dtype=torch.uint8, device=machine.device)

    allocate()
    if task["kept"]:
        return on_host(allocate)

    def seconds(executions):
        taken = 0.0
        for _ in range(executions):
            torch.cuda.empty_cache()
            machine.wait()
            begun = time.perf_counter()
            memory = allocate()
            taken += time.perf_counter() - begun
            del memory
        return taken

    return seconds


# --- Kernels, timed on the device


DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def kernel(task, size):
    rows, width, dtype = task["rows"], task["width"], getattr(torch, DTYPES[task["dtype"]])
    of = KERNELS[task["operation"]]
    return in_turns(lambda: of(rows, width, dtype), size)


def in_turns(make, size):
    """Executions that take turns with sets of tensors, so that none finds its own in the cache. Results are kept until the turn
    comes again, as their memory would be given to the next otherwise."""
    sets = min(SETS, max(1, math.ceil(BEYOND * machine.cache / max(size, 1))))
    calls, results = [make() for _ in range(sets)], [None] * sets
    turns = cycle(range(sets))

    def work():
        turn = next(turns)
        results[turn] = calls[turn]()

    seconds = machine.kernels(work)

    def timed(executions):
        with torch.no_grad():
            return seconds(executions)

    return timed


def random(rows, width, dtype):
    return torch.randn(rows, width, dtype=dtype, device=machine.device)


def add(rows, width, dtype):
    x, y = random(rows, width, dtype), random(rows, width, dtype)
    return lambda: torch.ops.aten.add(x, y)


def gelu(rows, width, dtype):
    x = random(rows, width, dtype)
    return lambda: torch.ops.aten.gelu(x, approximate="tanh")


def gelu_gradient(rows, width, dtype):
    x, gradient = random(rows, width, dtype), random(rows, width, dtype)
    return lambda: torch.ops.aten.gelu_backward(gradient, x, approximate="tanh")


def dropout(rows, width, dtype):
    x = random(rows, width, dtype)
    return lambda: torch.ops.aten.native_dropout(x, 0.1, True)


def softmax(rows, width, dtype):
    x = random(rows, width, dtype)
    return lambda: torch.ops.aten._softmax(x, -1, False)


def log_softmax(rows, width, dtype):
    x = random(rows, width, dtype)
    return lambda: torch.ops.aten._log_softmax(x, -1, False)


def log_softmax_gradient(rows, width, dtype):
    y = torch.ops.aten._log_softmax(random(rows, width, dtype), -1, False)
    gradient = random(rows, width, dtype)
    return lambda: torch.ops.aten._log_softmax_backward_data(gradient, y, -1, dtype)


def layer_norm(rows, width, dtype):
    x, weight, bias = random(rows, width, dtype), random(1, width, dtype)[0], random(1, width, dtype)[0]
    return lambda: torch.ops.aten.native_layer_norm(x, [width], weight, bias, 1e-5)


def layer_norm_gradients(mask):
    """The gradients that a mask says, of the input or of both weights."""

    def of(rows, width, dtype):
        x, gradient = random(rows, width, dtype), random(rows, width, dtype)
        weight, bias = random(1, width, dtype)[0], random(1, width, dtype)[0]
        _, mean, deviation = torch.ops.aten.native_layer_norm(x, [width], weight, bias, 1e-5)
        backward = torch.ops.aten.native_layer_norm_backward
        return lambda: backward(gradient, x, [width], mean, deviation, weight, bias, mask)

    return of


def fused_rms_norm():
    if not hasattr(torch.ops.aten, "_fused_rms_norm_backward"):
        raise unable("a norm in one kernel needs PyTorch 2.9, this is %s" % torch.__version__)
    return torch.ops.aten._fused_rms_norm, torch.ops.aten._fused_rms_norm_backward


def rms_norm(rows, width, dtype):
    forward, _ = fused_rms_norm()
    x, weight = random(rows, width, dtype), random(1, width, dtype)[0]
    return lambda: forward(x, [width], weight, 1e-5)


def rms_norm_gradient(rows, width, dtype):
    forward, backward = fused_rms_norm()
    x, weight, gradient = random(rows, width, dtype), random(1, width, dtype)[0], random(rows, width, dtype)
    _, deviation = forward(x, [width], weight, 1e-5)
    return lambda: backward(gradient, x, [width], deviation, weight, [True, False])


def bias_gradient(rows, width, dtype):
    gradient = random(rows, width, dtype)
    return lambda: torch.ops.aten.sum(gradient, [0])


def embedding(rows, width, dtype):
    table = random(rows, width, dtype)
    indices = torch.randperm(rows, device=machine.device)
    return lambda: torch.ops.aten.embedding(table, indices)


def adam(tensors, width, dtype):
    needs(2, 0 if machine.device.type == "cuda" else 4, "a fused optimizer")
    parameters, gradients, means, squares = (
        [torch.rand(width, dtype=dtype, device=machine.device) for _ in range(tensors)] for _ in range(4)
    )
    steps = [torch.ones((), dtype=torch.float32, device=machine.device) for _ in range(tensors)]
    settings = dict(lr=1e-3, beta1=0.9, beta2=0.95, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
    return lambda: torch._fused_adamw_(parameters, gradients, means, squares, [], steps, **settings)


KERNELS = {
    "add": add,
    "gelu": gelu,
    "gelu-gradient": gelu_gradient,
    "dropout": dropout,
    "softmax": softmax,
    "log-softmax": log_softmax,
    "log-softmax-gradient": log_softmax_gradient,
    "layer-norm": layer_norm,
    "layer-norm-gradient": layer_norm_gradients([True, False, False]),
    "layer-norm-weight-gradient": layer_norm_gradients([False, True, True]),
    "rms-norm": rms_norm,
    "rms-norm-gradient": rms_norm_gradient,
    "bias-gradient": bias_gradient,
    "embedding": embedding,
    "adam": adam,
}


def attention(task, size):
    """Flash attention alone, without what chooses it and without autograd."""
    needs(2, 0 if machine.device.type == "cuda" else 2, "flash attention")
    aten, causal = torch.ops.aten, task["causal"]
    batch, heads, width = task["batch"], task["heads"], task["head_dim"]
    if (task["kv_heads"], task["value_dim"]) != (heads, width):
        raise unable("heads of keys are as many and as wide as those of queries here")
    dtype = getattr(torch, DTYPES[task["dtype"]])

    def tokens(count):
        # As linear layers leave them: heads of a token lie together.
        shape = (batch, count, heads, width)
        return torch.randn(shape, dtype=dtype, device=machine.device).transpose(1, 2)

    def make():
        q, k, v = tokens(task["queries"]), tokens(task["keys"]), tokens(task["keys"])
        gradient = tokens(task["queries"])
        if machine.device.type != "cuda":
            forward = aten._scaled_dot_product_flash_attention_for_cpu
            if task["pass"] == "forward":
                return lambda: forward(q, k, v, 0.0, causal)
            out, sums = forward(q, k, v, 0.0, causal)[:2]
            gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward
            return lambda: gradients(gradient, q, k, v, out, sums, 0.0, causal)
        forward = aten._scaled_dot_product_flash_attention
        if task["pass"] == "forward":
            return lambda: forward(q, k, v, 0.0, causal, False)
        # Output, sums, lengths and longest of queries and keys, and the two of the random generator.
        out, sums, *others = forward(q, k, v, 0.0, causal, False)[:8]
        lengths, states = others[:4], others[4:]
        gradients = aten._scaled_dot_product_flash_attention_backward
        return lambda: gradients(gradient, q, k, v, out, sums, *lengths, 0.0, causal, *states)

    return in_turns(make, size)


# --- Questions

machine = None
ready = None


ON_HOST = {"operator": operator, "backward": backward, "update": update, "tensor": tensor}
ON_DEVICE = {"kernel": kernel, "attention": attention}


def prepare(task, size):
    kind = task["task"]
    if kind in ON_HOST:
        return ON_HOST[kind](task)
    if kind in ON_DEVICE:
        end_communication()
        return ON_DEVICE[kind](task, size)
    raise unable("a framework has no tasks of kind %s" % kind)


def rest():
    global ready
    ready = None
    if machine is not None and machine.device.type == "cuda":
        torch.cuda.empty_cache()


def answer(question):
    global machine, ready
    if question == "rest":
        return rest()
    ((verb, told),) = question.items()
    if verb == "open":
        machine = Host() if told["gpu"] is None else Gpu(told["gpu"], told["cache"])
        # What is there now stays: looking through it for rubbish again and again takes longer than small tasks.
        gc.collect()
        gc.freeze()
        gc.disable()
    elif verb == "prepare":
        rest()
        gc.collect()
        ready = prepare(told["task"], told["bytes"])
    elif ready is None:
        raise unable("nothing was made ready")
    else:
        return ready(told)


serve(answer)

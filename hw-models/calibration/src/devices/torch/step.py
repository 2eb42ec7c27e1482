"""Training steps that predictions are compared with.

A request says what to build, in the words of a scenario. What runs are the operators that the simulator takes a
transformer of `software.layers: hugging-face` to be, in the same order; "kernel" below is what one is on a GPU:

    embedding   look up words; add positions (views of a table)
    layer       norm; qkv (product that adds its bias); attention; projection; add; norm; up; GeLU; down; add
    attention   flash: one kernel on views of qkv
                materialised: [copies of heads, with several sequences]; product; cast; scale; mask in place; softmax;
                cast; product; transpose
    head        norm; logits; cast; log-softmax; loss of targets
    backward    what autograd makes of these: of a linear layer the gradient of its input, of its weight, of its bias;
                of queries, keys and values one tensor by one kernel (`unbind` becomes `stack`); gradients of matrices
                are added to those in place, gradients of vectors are handed over
    update      average; copy to fp32; norm and clip; Adam, fused or as eight passes over lists; copy back; clear

What differs, and is not in the simulator: the gradient of the mask is a copy and a fill where one pass is counted,
positions of several sequences are summed over them, a seed of the backward pass is filled in, and passes over lists of
tensors are a kernel for every 30 or so of them.
"""
import contextlib

import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


class Attention(torch.nn.Module):
    """From queries, keys and values, (b, s, 3, heads, d), to the context, (b, s, heads d)."""

    def __init__(self, model, mask):
        super().__init__()
        self.model, self.mask = model, mask

    def forward(self, qkv):
        if self.model["recompute"] == "selective":
            return checkpoint(self.attend, qkv, use_reentrant=True, preserve_rng_state=self.model["dropout"])
        return self.attend(qkv)

    def attend(self, qkv):
        query, key, value = (heads.transpose(1, 2) for heads in qkv.unbind(2))
        dropout = 0.1 if self.model["dropout"] else 0.0
        if self.model["attention"] == "flash":
            context = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        else:
            scores = torch.matmul(query, key.transpose(-1, -2))
            scaled = scores.float() * (1 / math.sqrt(query.shape[-1]))
            del scores
            softmax = F.softmax(scaled.masked_fill_(self.mask, -10000.0), dim=-1)
            del scaled
            probabilities = softmax.to(query.dtype)
            del softmax
            if dropout:
                probabilities = F.dropout(probabilities, dropout)
            context = torch.matmul(probabilities, value)
        return context.transpose(1, 2).reshape(qkv.shape[0], qkv.shape[1], -1)


class Layer(torch.nn.Module):
    def __init__(self, model, mask):
        super().__init__()
        hidden, ffn = model["hidden"], model["ffn"]
        self.model = model
        self.attention_norm = torch.nn.LayerNorm(hidden)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.attention = Attention(model, mask)
        self.projection = torch.nn.Linear(hidden, hidden)
        self.mlp_norm = torch.nn.LayerNorm(hidden)
        self.up = torch.nn.Linear(hidden, ffn)
        self.down = torch.nn.Linear(ffn, hidden)

    def forward(self, stream):
        heads = self.model["heads"]
        qkv = self.qkv(self.attention_norm(stream)).unflatten(-1, (3, heads, self.model["hidden"] // heads))
        stream = stream + self.drop(self.projection(self.attention(qkv)))
        del qkv
        return stream + self.drop(self.down(self.gelu(self.up(self.mlp_norm(stream)))))

    def gelu(self, x):
        if self.model["gelu"] == "kernel":
            return F.gelu(x, approximate="tanh")
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    def drop(self, branch):
        return F.dropout(branch, 0.1) if self.model["dropout"] else branch


class Transformer(torch.nn.Module):
    def __init__(self, model, device):
        super().__init__()
        self.model = model
        sequence, hidden = model["sequence"], model["hidden"]
        mask = None
        if model["attention"] == "materialised":
            mask = torch.ones(sequence, sequence, dtype=torch.bool, device=device).triu(1)
        self.words = torch.nn.Parameter(torch.empty(model["vocabulary"], hidden))
        self.positions = torch.nn.Parameter(torch.empty(model["max_positions"], hidden))
        self.layers = torch.nn.ModuleList(Layer(model, mask) for _ in range(model["layers"]))
        self.norm = torch.nn.LayerNorm(hidden)
        self.logits = torch.nn.Linear(hidden, model["vocabulary"], bias=False)
        self.blocks = model["layers"] + 2

    def forward(self, tokens, targets):
        stream = None
        for at in range(self.blocks):
            stream = self.block(at, stream, tokens, targets)
        return stream

    def block(self, at, stream, tokens, targets):
        """Embedding, a layer, or the head, which gives the loss."""
        if at == 0:
            return self.embedding(tokens)
        if at == self.blocks - 1:
            return self.head(stream, targets)
        layer = self.layers[at - 1]
        if self.model["recompute"] == "full" and at <= self.model["recomputed_layers"]:
            # Without reentrance recomputation ends with the last tensor that is needed (PyTorch 2.1).
            early, dropout = self.model["early_stop"], self.model["dropout"]
            return checkpoint(layer, stream, use_reentrant=not early, preserve_rng_state=dropout)
        return layer(stream)

    def embedding(self, tokens):
        stream = F.embedding(tokens, self.words) + self.positions[None, : tokens.shape[1]]
        return F.dropout(stream, 0.1) if self.model["dropout"] else stream

    def head(self, stream, targets):
        # The logits in half precision have no name: they go as soon as they are copied.
        logits = self.logits(self.norm(stream)).float()
        return F.cross_entropy(logits.view(-1, self.model["vocabulary"]), targets.view(-1))


class Adam:
    """Adam in eight passes over lists of tensors."""

    def __init__(self, parameters, rate):
        self.parameters, self.rate, self.step_count = parameters, rate, 0
        self.mean = [torch.zeros_like(p) for p in parameters]
        self.square = [torch.zeros_like(p) for p in parameters]

    def step(self):
        self.step_count += 1
        gradients = [p.grad for p in self.parameters]
        torch._foreach_mul_(self.mean, 0.9)
        torch._foreach_add_(self.mean, gradients, alpha=0.1)
        torch._foreach_mul_(self.square, 0.999)
        torch._foreach_addcmul_(self.square, gradients, gradients, 0.001)
        root = torch._foreach_sqrt(self.square)
        torch._foreach_div_(root, math.sqrt(1 - 0.999**self.step_count))
        torch._foreach_add_(root, 1e-8)
        torch._foreach_addcdiv_(self.parameters, self.mean, root, -self.rate / (1 - 0.9**self.step_count))


class Training:
    """A model with its optimizer, and one step of them."""

    RATE = 1e-5

    def __init__(self, model, device):
        needs(2, 0, "attention without scores in memory", model["attention"] == "flash")
        needs(2, 1, "recomputation that ends early", model["early_stop"])
        needs(2, 2, "compiled layers", model["compile"])
        needs(2, 1, "a fused optimizer whose steps are on the GPU", model["optimizer"] == "fused" and device == "cuda")
        needs(2, 4, "a fused optimizer on a CPU", model["optimizer"] == "fused" and device == "cpu")
        self.model, self.device = model, device
        torch.manual_seed(1)
        with made_in_half(device):
            self.network = Transformer(model, device).to(device)
        with torch.no_grad():
            for parameter in self.network.parameters():
                parameter.uniform_(-0.02, 0.02)
        if model["compile"]:
            torch._dynamo.reset()
            for layer in self.network.layers:
                layer.compile()
        self.parameters = list(self.network.parameters())
        self.vectors = [p for p in self.parameters if p.dim() == 1]
        # Sums of gradients are one buffer.
        self.sums = torch.zeros(sum(p.numel() for p in self.parameters), dtype=torch.bfloat16, device=device)
        offset = 0
        for parameter in self.parameters:
            if parameter.dim() > 1:
                parameter.grad = self.sums[offset : offset + parameter.numel()].view_as(parameter)
            offset += parameter.numel()
        self.masters = [p.detach().float() for p in self.parameters]
        if model["optimizer"] == "fused":
            capturable = model["launch"] == "graph"
            self.adam = torch.optim.Adam(self.masters, lr=self.RATE, fused=True, capturable=capturable)
        else:
            self.adam = Adam(self.masters, self.RATE)
        shape = (model["micro_batch"], model["sequence"])
        self.tokens = torch.randint(model["vocabulary"], shape, device=device)
        self.targets = torch.randint(model["vocabulary"], shape, device=device)

    def step(self):
        for _ in range(self.model["accumulate"]):
            loss = self.micro_batch()
        self.update()
        return loss.detach()

    def micro_batch(self):
        """Gradients are added to those of the micro-batches before."""
        loss = self.forward()
        loss.backward()
        return loss

    def forward(self):
        return self.network(self.tokens, self.targets)

    @torch.no_grad()
    def update(self):
        gradients = [p.grad for p in self.parameters]
        torch._foreach_mul_(gradients, 1.0)
        for master in self.masters:
            if master.grad is None:
                master.grad = torch.empty_like(master)
        copy([master.grad for master in self.masters], gradients)
        del gradients
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.adam.step()
        copy(self.parameters, self.masters)
        self.sums.zero_()
        for vector in self.vectors:
            vector.grad = None


def copy(into, out_of):
    """Copies a list of tensors."""
    if hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(into, out_of)
    else:
        for to, tensor in zip(into, out_of):
            to.copy_(tensor)


@contextlib.contextmanager
def made_in_half(device):
    """Parameters are made where and as they are used: nothing larger is ever allocated."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        # A device is a context from PyTorch 2.0 on.
        with torch.device(device) if hasattr(torch.device, "__enter__") else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(before)


def ready(request, device):
    """A model that trains, and its step, which has run until it always takes the same."""
    training = Training(request["model"], request["device"])
    device.forget_peaks()
    step = device.graphs([training.step])[0] if request["model"]["launch"] == "graph" else training.step
    for _ in range(request["warm_up"]):
        step()
    device.wait()
    return training, step


def timed(device, step):
    """A step from a host that has waited for the one before to the end of its last kernel: what it takes on the host's clock and
    between events, and the loss."""
    begin, started = time.perf_counter(), device.event()
    loss = step()
    ended = device.event()
    device.wait_for(ended)
    return time.perf_counter() - begin, device.between(started, ended), loss


def stretch(device, step, least, seconds):
    """Steps for so long, at least so many: what each takes, its losses, and the power that the board draws meanwhile."""
    begin, energy, timings = time.perf_counter(), device.energy(), []
    while len(timings) < least or time.perf_counter() - begin < seconds:
        timings.append(timed(device, step))
    took = time.perf_counter() - begin
    host, gpu, losses = zip(*timings)
    figures = {"step_s": host, "between_events_s": gpu}
    if energy is not None:
        figures["power_w"] = [(device.energy() - energy) / took]
    return figures, losses


def check(loss):
    if not math.isfinite(loss.item()):
        raise Trouble("failed", doing="training", why="the loss is no number")


def step(request):
    """Times steps."""
    device = Cuda() if request["device"] == "cuda" else Cpu()
    device.begin()
    training, step = ready(request, device)
    before = device.conditions()
    # The clocks fall while they are asked for.
    timed(device, step)
    figures, losses = stretch(device, step, request["steps"], request["stretch_s"])
    check(losses[-1])
    after = device.conditions()
    if training.model["launch"] != "graph":
        # Graphs have memory of their own.
        figures.update(device.peaks())
    return {"figures": figures, "before": before, "after": after}


def operators(request):
    """What a step consists of: operators with the sizes of what they read, and bytes that autograd keeps for the backward pass."""
    training = Training(request["model"], "cpu")
    # What is imported when it is first needed computes, too.
    training.step()
    with Watch() as watch:
        training.forward().backward()
    training.update()
    return {"operators": watch.found, "kept_bytes": kept(training)}


class Watch(TorchDispatchMode):
    """Operators that are dispatched: names, each with the sizes of what it reads."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        sizes = [list(a.shape) for a in arguments if isinstance(a, torch.Tensor)]
        self.found.append([str(function).rsplit(".", 1)[0], sizes])
        return function(*arguments, **(keywords or {}))


def kept(training):
    """Bytes that autograd keeps of a forward pass, parameters left out: each storage once."""
    parameters = {p.storage().data_ptr() for p in training.parameters}
    storages = {}

    def keep(tensor):
        # Numbers that tensors are multiplied by are tensors without a dimension.
        if tensor.dim() > 0:
            storages[tensor.storage().data_ptr()] = tensor.storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = training.forward()
    bytes_kept = sum(storage.nbytes() for place, storage in storages.items() if place not in parameters)
    del loss
    return bytes_kept

"""Training steps whose forward pass sends what it saves to host memory, and whose backward pass has it back.

What leaves is decided by the rule of the simulated technique, of which the request has the numbers: tensors (storages, each
once) smaller than `smallest` stay; of the others, in the order in which the backward pass needs them, so many stay as fit in
`keep`; before the backward pass needs one, those of the next `prefetch` that have left are asked for. A first step, of which all stays, tells
the order.

What differs, and is not in the simulator: a tensor leaves as the operator that saves it is launched, which may be later than the
one that fills it has ended; the host tells the streams of copies so, whose time for that is not counted. From memory that is not
page-locked a tensor comes by a thread that the host waits for, which launches what needs it only then.
"""
from concurrent.futures import ThreadPoolExecutor

from torch.multiprocessing.reductions import StorageWeakRef


class Saved:
    """A storage that the forward pass has saved."""

    def __init__(self, at, storage):
        self.at, self.bytes = at, storage.nbytes()
        # In how many places autograd keeps it.
        self.places = 0
        # On the device, unless it is away; in host memory, and what must have happened before that is true.
        self.here, self.there, self.stored, self.loaded = storage, None, None, None


class Swapping:
    """Hooks around a forward pass."""

    def __init__(self, asked, mover, permanent):
        self.smallest, self.keep, self.prefetch = asked["smallest"], asked["keep"], asked["prefetch"]
        self.mover = mover
        self.permanent = {tensor.untyped_storage().data_ptr() for tensor in permanent}
        # Of the tensors that may leave, counted as they are saved: when each is needed, and those that leave, in that order.
        self.sizes, self.needed, self.away, self.turn = [], None, [], {}
        # How many leave of the first so many that are needed.
        self.leaving = [0]
        self.buffers = {}
        self.begin()

    def begin(self):
        self.saved, self.known, self.order, self.asked = [], {}, [], 0
        self.out_bytes = self.back_bytes = 0

    def end(self):
        """After a step; the first one decides."""
        sizes = [saved.bytes for saved in self.saved]
        if self.needed is None:
            self.needed, self.sizes, kept = self.order, sizes, 0
            for at in self.needed:
                if kept + sizes[at] <= self.keep:
                    kept += sizes[at]
                else:
                    self.turn[at] = len(self.away)
                    self.away.append(at)
                self.leaving.append(len(self.away))
        elif sizes != self.sizes:
            raise Trouble("failed", doing="swapping", why="a step saved other tensors than the first one")
        self.begin()

    def hooks(self):
        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage.nbytes() < self.smallest or storage.data_ptr() in self.permanent:
            return tensor
        saved = self.of(storage)
        saved.places += 1
        return saved, tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()

    def of(self, storage):
        """What has been saved of a storage; another may be at the place of one that has gone."""
        alive, saved = self.known.get(storage.data_ptr(), (None, None))
        if saved is None or alive.expired():
            saved = Saved(len(self.saved), storage)
            self.saved.append(saved)
            self.known[storage.data_ptr()] = StorageWeakRef(storage), saved
            if saved.at in self.turn:
                self.leave(saved)
        return saved

    def leave(self, saved):
        if saved.at not in self.buffers:
            self.buffers[saved.at] = self.mover.buffer(saved.bytes)
        saved.there = self.buffers[saved.at]
        saved.stored = self.mover.store(saved.here, saved.there)
        saved.here = None
        self.out_bytes += saved.bytes

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        saved, dtype, offset, size, stride = packed
        if saved.at not in self.order:
            self.order.append(saved.at)
            last = self.leaving[min(len(self.order) + self.prefetch, len(self.leaving) - 1)]
            for at in self.away[self.asked : last]:
                self.fetch(self.saved[at])
            self.asked = max(self.asked, last)
        if saved.at in self.turn:
            self.mover.need(saved.loaded)
        tensor = torch.empty(0, dtype=dtype, device=self.mover.device).set_(saved.here, offset, size, stride)
        saved.places -= 1
        if saved.places == 0:
            saved.here = None
        return tensor

    def fetch(self, saved):
        saved.here, saved.loaded = self.mover.load(saved.there, saved.bytes, saved.stored)
        self.back_bytes += saved.bytes


class Mover:
    """Copies between a GPU and pinned memory, on a stream for each way."""

    device = "cuda"

    def __init__(self):
        self.out, self.back = torch.cuda.Stream(), torch.cuda.Stream()

    def buffer(self, size):
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def store(self, storage, into):
        """Copies a storage when all before is done; its memory is free for others when the copy has ended."""
        flat = torch.empty(0, dtype=torch.uint8, device=self.device).set_(storage)
        self.out.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.out):
            into.copy_(flat, non_blocking=True)
        flat.record_stream(self.out)
        return self.out.record_event()

    def load(self, out_of, size, stored):
        flat = torch.empty(size, dtype=torch.uint8, device=self.device)
        # Its memory may have been another's until now.
        self.back.wait_stream(torch.cuda.current_stream())
        self.back.wait_event(stored)
        with torch.cuda.stream(self.back):
            flat.copy_(out_of, non_blocking=True)
        return flat.untyped_storage(), self.back.record_event()

    def need(self, loaded):
        torch.cuda.current_stream().wait_event(loaded)


class ThreadMover:
    """The same where the host's memory is not page-locked: a thread for each way makes one copy after the other and waits until it has
    ended, and so does the host that needs one."""

    def __init__(self, device):
        self.device, self.moment = device.name, device.moment
        self.out, self.back = ((ThreadPoolExecutor(1), device.on_a_stream()) for _ in range(2))

    def buffer(self, size):
        return torch.zeros(size, dtype=torch.uint8)

    def store(self, storage, into):
        thread, stream = self.out
        filled = self.moment()

        def copy(flat):
            with stream(filled):
                into.copy_(flat)

        # Nobody else has the storage: its memory is free for others when the copy has ended.
        return thread.submit(copy, torch.empty(0, dtype=torch.uint8, device=self.device).set_(storage))

    def load(self, out_of, size, stored):
        thread, stream = self.back
        flat = torch.empty(size, dtype=torch.uint8, device=self.device)
        # Its memory may have been another's until now.
        free = self.moment()

        def copy():
            stored.result()
            with stream(free):
                flat.copy_(out_of)

        return flat.untyped_storage(), thread.submit(copy)

    def need(self, loaded):
        loaded.result()


class HostMover:
    """The same on a CPU, for tests of this script: copies have ended when they begin."""

    device = "cpu"

    def buffer(self, size):
        return torch.empty(size, dtype=torch.uint8)

    def store(self, storage, into):
        into.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))

    def load(self, out_of, size, stored):
        return out_of.clone().untyped_storage(), None

    def need(self, loaded):
        pass


class SwappedTraining(Training):
    """A model that trains, and sends away what it saves."""

    def __init__(self, model, device, mover, asked):
        needs(2, 0, "storages without a type, whose places tell whether they are still there", True)
        super().__init__(model, device)
        # The mask is there throughout, as parameters are.
        permanent = self.parameters + [mask for mask in (self.network.layers[0].attention.mask,) if mask is not None]
        self.swapping = Swapping(asked, mover, permanent)

    def step(self):
        self.out_bytes = self.back_bytes = 0
        return super().step()

    def micro_batch(self):
        with self.swapping.hooks():
            loss = self.forward()
        loss.backward()
        self.out_bytes += self.swapping.out_bytes
        self.back_bytes += self.swapping.back_bytes
        self.swapping.end()
        return loss


def swap(request):
    """Times steps, and counts the bytes of one that leave and that come back."""
    device = Cuda() if request["device"] == "cuda" else Cpu()
    device.begin()
    mover = device.mover(request["swap"]["pinned"])
    training = SwappedTraining(request["model"], request["device"], mover, request["swap"])
    device.forget_peaks()
    for _ in range(1 + request["warm_up"]):
        training.step()
    device.wait()
    before = device.conditions()
    # The clocks fall while they are asked for.
    timed(device, training.step)
    figures, losses = stretch(device, training.step, request["steps"], request["stretch_s"])
    check(losses[-1])
    figures["loss"] = [loss.item() for loss in losses]
    figures.update({"out_bytes": [float(training.out_bytes)], "back_bytes": [float(training.back_bytes)]})
    figures["moved"] = [float(len(training.swapping.away) * request["model"]["accumulate"])]
    figures.update(device.peaks())
    return {"figures": figures, "before": before, "after": device.conditions()}

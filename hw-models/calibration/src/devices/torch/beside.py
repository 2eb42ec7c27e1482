"""Training steps beside other work of the GPU: copies over its link, and blocks that hold SMs."""
import threading


class Copies:
    """Copies between pinned memory and the GPU, on a stream for each way. They are queued ahead: none waits for the host."""

    SIZE = 256 << 20

    def __init__(self, to_device, to_host):
        self.ways = [self.way(into_host) for into_host, wanted in ((False, to_device), (True, to_host)) if wanted]
        # One way alone: both at once take no less.
        begun, ended = self.queue(self.ways[0], 4)
        ended.synchronize()
        self.copy_s = begun.elapsed_time(ended) * 1e-3 / 4

    def way(self, into_host):
        host = torch.empty(self.SIZE, dtype=torch.uint8, pin_memory=True)
        pair = host, torch.empty_like(host, device="cuda")
        return (torch.cuda.Stream(),) + (pair if into_host else pair[::-1])

    def queue(self, way, copies):
        """Queues one copy and so many more; returns the events between them and after them."""
        stream, into, out_of = way
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            into.copy_(out_of, non_blocking=True)
            begun.record()
            for _ in range(copies):
                into.copy_(out_of, non_blocking=True)
            ended.record()
        return begun, ended

    def begin(self, seconds):
        queued = [self.queue(way, math.ceil(seconds / self.copy_s)) for way in self.ways]
        for begun, _ in queued:
            begun.synchronize()
        self.ended = [ended for _, ended in queued]

    def goes_on(self):
        return not any(ended.query() for ended in self.ended)

    def end(self):
        for stream, _, _ in self.ways:
            stream.synchronize()


class Holders:
    """Blocks that hold an SM each: no other has shared memory there, of which the hardware needs some for every block."""

    # The first thread of a block says that it is there, and looks now and then whether it may go.
    SOURCE = """
extern "C" __global__ void hold(volatile int* flags, int milliseconds) {
    if (threadIdx.x == 0) {
        unsigned long long begun, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
        flags[1 + blockIdx.x] = 1;
        do {
            __nanosleep(10000);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        } while (flags[0] == 0 && now - begun < milliseconds * 1000000ull);
    }
    __syncthreads();
}
"""
    THREADS = 1024
    # Longest time (s) until all blocks are there: the GPU has nothing else to do.
    LONGEST = 10

    def __init__(self, blocks):
        properties = torch.cuda.get_device_properties(0)
        if blocks >= properties.multi_processor_count:
            raise unable("%d of %d SMs cannot be held" % (blocks, properties.multi_processor_count))
        self.shared = getattr(properties, "shared_memory_per_block_optin", 0)
        self.blocks, self.kernel = blocks, self.compiled()
        self.stream = torch.cuda.Stream()
        # The flag that lets all go, and one of each block.
        self.flags = torch.zeros(1 + blocks, dtype=torch.int32, pin_memory=True)

    def compiled(self):
        if not hasattr(torch.cuda, "_compile_kernel"):
            raise unable("blocks that hold SMs need a PyTorch that compiles kernels (2.8), this is %s" % torch.__version__)
        try:
            kernel = torch.cuda._compile_kernel(self.SOURCE, "hold")
        except (OSError, RuntimeError) as error:
            raise unable("PyTorch compiles no kernels here: %s" % str(error).strip().split("\n")[0]) from error
        if not hasattr(kernel, "set_shared_memory_config"):
            raise unable("kernels of PyTorch %s have 48 KiB of shared memory at most: SMs have more" % torch.__version__)
        kernel.set_shared_memory_config(self.shared)
        return kernel

    def begin(self, seconds):
        self.flags.zero_()
        arguments = [self.flags, math.ceil(seconds * 1e3)]
        self.kernel((self.blocks, 1, 1), (self.THREADS, 1, 1), arguments, shared_mem=self.shared, stream=self.stream)
        self.ended = torch.cuda.Event()
        self.ended.record(self.stream)
        waits_until = time.perf_counter() + self.LONGEST
        while not bool(self.flags[1:].all()):
            if time.perf_counter() > waits_until:
                raise Trouble("failed", doing="holding SMs", why="blocks did not begin on a GPU that does nothing else")

    def goes_on(self):
        return not self.ended.query()

    def end(self):
        self.flags[0] = 1
        self.stream.synchronize()


class HostCopies:
    """The same on a CPU, for tests of this script: threads that copy until they are told to end, or as long as they should."""

    def __init__(self, threads):
        self.threads = threads

    def begin(self, seconds):
        self.told, until = threading.Event(), time.perf_counter() + seconds
        self.running = [threading.Thread(target=self.copy, args=(until,), daemon=True) for _ in range(self.threads)]
        for thread in self.running:
            thread.start()

    def copy(self, until):
        ours, theirs = torch.zeros(1 << 16), torch.zeros(1 << 16)
        while not self.told.is_set() and time.perf_counter() < until:
            ours.copy_(theirs)

    def goes_on(self):
        return all(thread.is_alive() for thread in self.running)

    def end(self):
        self.told.set()
        for thread in self.running:
            thread.join()


class Nothing:
    def begin(self, seconds):
        pass

    def goes_on(self):
        return True

    def end(self):
        pass


def other_work(device, asked):
    if asked["sms"] > 0:
        return device.holders(asked["sms"])
    if asked["to_device"] or asked["to_host"]:
        return device.copies(asked["to_device"], asked["to_host"])
    return Nothing()


# The other work goes on for so many times as long as a step takes alone.
LONGER = 4


def beside(request):
    """Times steps alone and beside other work, in turns, so that clocks which change do so for both."""
    device = Cuda() if request["device"] == "cuda" else Cpu()
    device.begin()
    other = other_work(device, request["beside"])
    training, step = ready(request, device)
    before = device.conditions()
    # The clocks fall while they are asked for.
    timed(device, step)
    alone, met = [], []
    for _ in range(request["samples"]):
        alone.append(timed(device, step)[0])
        other.begin(LONGER * statistics.median(alone))
        try:
            met.append(timed(device, step))
            if not other.goes_on():
                raise unable("the other work ended before a step of %.3g s, as it began" % met[-1][0])
        finally:
            other.end()
    host, gpu, losses = zip(*met)
    check(losses[-1])
    figures = {"step_s": host, "alone_s": alone, "between_events_s": gpu}
    return {"figures": figures, "before": before, "after": device.conditions()}

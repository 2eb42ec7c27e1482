"""Steps that wait for batches which threads of the host prepare."""
import contextlib
import hashlib
import queue
import threading


class Loaders:
    """Threads that prepare one batch after the other, and the queue that holds those that are ready."""

    # Longest time (s) that a batch is waited for: a thread that failed puts none.
    LONGEST = 60

    def __init__(self, threads, prefetch, size):
        self.size, self.ready, self.ended = size, queue.Queue(prefetch), threading.Event()
        self.begun, self.taken = [0] * threads, 0
        self.threads = [threading.Thread(target=self.load, args=(thread,), daemon=True) for thread in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        while any(thread.is_alive() for thread in self.threads):
            # Who waits for room in the queue ends when it has some.
            with contextlib.suppress(queue.Empty):
                self.ready.get(timeout=0.01)

    def load(self, thread):
        while not self.ended.is_set():
            self.begun[thread] += 1
            prepare(self.size)
            self.ready.put(None)

    def take(self):
        """Waits for a batch; returns how many are begun that nobody has taken."""
        self.ready.get(timeout=self.LONGEST)
        self.taken += 1
        return sum(self.begun) - self.taken


# What is hashed at once: in the caches of a core, and long enough that the interpreter's lock, which is let go meanwhile, costs nothing.
PIECE = memoryview(bytes(1 << 20))


def prepare(size):
    """The work of a batch on a core: a digest of so many bytes."""
    digest = hashlib.sha256()
    for done in range(0, size, len(PIECE)):
        digest.update(PIECE[: size - done])
    return digest


def seconds(samples, work):
    """What work takes, each time."""
    found = []
    for _ in range(samples):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return found


def together(threads, work):
    """The same work by so many threads at once."""

    def all_at_once():
        running = [threading.Thread(target=work) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    return all_at_once


# Batches that each thread prepares where all prepare at once: starting threads is nothing beside them.
IN_A_ROW = 3


# Steps of a sample, at least: batches of all threads may come together, so that samples are of whole rounds.
WINDOW = 24


def loader(request):
    """Means of steps that each take a batch from the queue and wait for the end of what the device makes of it."""
    asked, device = request["loader"], Cuda() if request["device"] == "cuda" else Cpu()
    device.begin()
    threads, prefetch = asked["threads"], asked["prefetch"]
    size = int(16 * len(PIECE) * asked["batch_s"] / statistics.median(seconds(5, lambda: prepare(16 * len(PIECE)))))
    step = device.stepping(asked["step_s"])
    seconds(request["warm_up"], step)
    alone = {
        "batch_alone_s": seconds(request["samples"], lambda: prepare(size)),
        "step_alone_s": seconds(request["samples"], step),
    }
    all_at_once = together(threads, lambda: prepare(IN_A_ROW * size))
    batch = statistics.median(alone["batch_alone_s"])
    cores = [threads * IN_A_ROW * batch / taken for taken in seconds(request["samples"] // 2, all_at_once)]
    before = device.conditions()
    rounds = math.ceil(WINDOW / threads)
    ahead = []
    with Loaders(threads, prefetch, size) as loaders:

        def steps():
            for _ in range(rounds * threads):
                ahead.append(loaders.take())
                step()

        # The queue becomes as full as it stays.
        steps()
        found = [sample / (rounds * threads) for sample in seconds(max(1, request["samples"] // 4), steps)]
    figures = {"step_s": found, **alone, "cores": cores, "batches_ahead": [float(max(ahead))]}
    return {"figures": figures, "before": before, "after": device.conditions()}

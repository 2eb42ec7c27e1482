"""What moves between a GPU and its host: a copy one way or one each way at once, page-locked or not, beside kernels or not; a file, by way
of the page cache or past it.

Each of them is made by a thread that waits until it has ended, on a stream of its own. Files are in the folder in which the script was
started. Past the page cache as many threads as a queue is deep have a request each; what differs, and is not in the simulator: the threads
take turns in the interpreter between requests.
"""
import tempfile


class Meanwhile:
    """A thread that does the same work again and again while others are timed."""

    def __init__(self, work):
        self.work, self.told, self.trouble = work, threading.Event(), None
        self.thread = threading.Thread(target=self.go_on, daemon=True)

    def go_on(self):
        try:
            while not self.told.is_set():
                self.work()
        except Exception as error:
            self.trouble = error

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.told.set()
        self.thread.join()
        if self.trouble is not None:
            raise self.trouble


class Copy:
    """A copy of so many bytes one way."""

    def __init__(self, device, to_device, pinned, size):
        host, _ = device.host_buffer(size, pinned)
        there = torch.zeros(size, dtype=torch.uint8, device=device.name)
        device.wait()
        self.into, self.out_of = (there, host) if to_device else (host, there)
        self.begin = device.on_a_stream()

    def __call__(self):
        with self.begin():
            self.into.copy_(self.out_of, non_blocking=True)


class Products:
    """Products that keep all of a GPU busy, a few of them at a time."""

    def __init__(self, device):
        side = 4096 if device.name == "cuda" else 64
        self.factor = torch.zeros(side, side, dtype=torch.bfloat16, device=device.name)
        self.begin = device.on_a_stream()

    def __call__(self):
        with self.begin():
            for _ in range(8):
                torch.mm(self.factor, self.factor)


class File:
    """A file of so many bytes, and a tensor of the device that goes there or comes from there by way of a buffer of its size."""

    pinned = False

    def __init__(self, device, asked, path):
        self.asked, self.device, self.size = asked, device, asked["bytes"]
        self.host, self.view = device.host_buffer(self.size, self.pinned)
        self.there = torch.randint(0, 256, (self.size,), dtype=torch.uint8).to(device.name)
        device.wait()
        self.begin, self.descriptor = device.on_a_stream(), self.opened(path)
        self.copy(self.host, self.there)
        self.put()
        self.forget()

    def opened(self, path):
        return os.open(path, os.O_RDWR | os.O_CREAT)

    def copy(self, into, out_of):
        with self.begin():
            into.copy_(out_of, non_blocking=True)

    def put(self):
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        done = 0
        while done < self.size:
            done += os.write(self.descriptor, self.view[done:])

    def get(self):
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        done = 0
        while done < self.size:
            done += os.readv(self.descriptor, [self.view[done:]])

    def forget(self):
        """Nothing of the file is in memory, nor on its way to the drive."""
        os.fsync(self.descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def write(self):
        self.copy(self.host, self.there)
        self.put()

    def read(self):
        self.get()
        self.copy(self.there, self.host)

    def check(self):
        """What was written is what is read."""
        kept = self.there.clone()
        self.there.zero_()
        self.read()
        if not torch.equal(kept, self.there):
            raise Trouble("failed", doing="moving a file", why="other bytes came back than were written")


class DirectFile(File):
    """The same past the page cache, in pieces that several threads have under way."""

    pinned = True

    def __init__(self, device, asked, path):
        self.threads = ThreadPoolExecutor(asked["depth"])
        super().__init__(device, asked, path)

    def opened(self, path):
        if not hasattr(os, "O_DIRECT"):
            raise unable("this system has no way past its page cache")
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        except OSError as error:
            raise unable("the file system of %s has no way past the page cache: %s" % (os.path.dirname(path), error)) from error

    def pieces(self, move):
        block = self.asked["block"]
        for _ in self.threads.map(lambda at: move(self.view[at : at + block], at), range(0, self.size, block)):
            pass

    def put(self):
        def move(piece, at):
            if os.pwrite(self.descriptor, piece, at) != len(piece):
                raise Trouble("failed", doing="writing a file", why="the drive took a part of a piece")

        self.pieces(move)

    def get(self):
        def move(piece, at):
            if os.preadv(self.descriptor, [piece], at) != len(piece):
                raise Trouble("failed", doing="reading a file", why="the drive gave a part of a piece")

        self.pieces(move)


def moved(device, asked, samples):
    """What a transfer takes, each time."""
    if asked["over"] in ("page-locked", "pageable"):
        pinned = asked["over"] == "page-locked"
        copy, other = (Copy(device, to_device, pinned, asked["bytes"]) for to_device in (asked["to_device"], not asked["to_device"]))
        with contextlib.ExitStack() as beside:
            if asked["both_ways"]:
                beside.enter_context(Meanwhile(other))
            if asked["beside_products"]:
                beside.enter_context(Meanwhile(Products(device)))
            return seconds(samples + 1, copy)[1:]
    kind = File if asked["over"] == "buffered" else DirectFile
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        file = kind(device, asked, os.path.join(folder, "tensor"))
        try:
            found = []
            for _ in range(samples):
                found += seconds(1, file.read if asked["to_device"] else file.write)
                file.forget()
            file.check()
        finally:
            os.close(file.descriptor)
    return found


def transfer(request):
    """Times transfers."""
    device = Cuda() if request["device"] == "cuda" else Cpu()
    device.begin()
    before = device.conditions()
    found = moved(device, request["transfer"], request["samples"])
    return {"figures": {"transfer_s": found}, "before": before, "after": device.conditions()}

"""What workloads need of a device: streams, clocks, and what holds it back."""
import contextlib
import ctypes
import math
import mmap
import statistics
import subprocess
import time

if torch is None:
    # The greeting says what is missing.
    serve(None)
    sys.exit()

# Streams that share a queue would wait for each other; it is read when CUDA begins.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


class Cuda:
    """What measuring needs of a GPU."""

    name = "cuda"
    counter = None

    # What holds a GPU back, as `nvidia-smi` asks for it; the cap on power belongs to what a load does to the board.
    HELD_BACK = {
        "clocks_throttle_reasons.hw_slowdown": "a slowdown of the hardware",
        "clocks_throttle_reasons.hw_thermal_slowdown": "heat (slowed by the hardware)",
        "clocks_throttle_reasons.sw_thermal_slowdown": "heat (slowed by the driver)",
        "clocks_throttle_reasons.hw_power_brake_slowdown": "the power supply's brake",
    }
    READINGS = {
        "clocks.sm": "clock_mhz",
        "clocks.mem": "memory_clock_mhz",
        "temperature.gpu": "temperature_c",
        "power.draw": "power_w",
    }

    def begin(self):
        """Nothing is left of what ran before; attention without scores in memory is FlashAttention's, no other's."""
        gc.collect()
        torch.cuda.empty_cache()
        for other in ("enable_math_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp"):
            if hasattr(torch.backends.cuda, other):
                getattr(torch.backends.cuda, other)(False)

    def wait(self):
        torch.cuda.synchronize()

    def wait_for(self, event):
        """Until the GPU has come to it, whatever goes on beside."""
        event.synchronize()

    def forget_peaks(self):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def peaks(self):
        return {
            "peak_allocated_bytes": [float(torch.cuda.max_memory_allocated())],
            "peak_reserved_bytes": [float(torch.cuda.max_memory_reserved())],
        }

    def graphs(self, parts):
        """Parts that follow each other as a graph each: replaying one does its part again, and gives what that gave."""
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                for part in parts:
                    part()
        torch.cuda.current_stream().wait_stream(beside)
        torch.cuda.synchronize()
        pool = torch.cuda.graph_pool_handle()
        return [self.captured(part, pool) for part in parts]

    def captured(self, part, pool):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            given = part()

        def replay():
            graph.replay()
            return given

        return replay

    def read(self, number):
        """Copies a number to the host, after all that was queued: calling what it gives waits for it."""
        there = torch.empty((), dtype=number.dtype, pin_memory=True)
        there.copy_(number.detach(), non_blocking=True)
        copied = torch.cuda.current_stream().record_event()

        def value():
            copied.synchronize()
            return there.item()

        return value

    def event(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin, end):
        return begin.elapsed_time(end) * 1e-3

    def streams(self, count):
        return Streams(count)

    def copies(self, to_device, to_host):
        return Copies(to_device, to_host)

    def mover(self, pinned):
        return Mover() if pinned else ThreadMover(self)

    def moment(self):
        """What is queued until now."""
        return torch.cuda.current_stream().record_event()

    def on_a_stream(self):
        """A stream: what is done while it is entered runs there, after all that was queued until a moment, and has ended when it is left."""
        stream = torch.cuda.Stream()

        @contextlib.contextmanager
        def entered(after=None):
            with torch.cuda.stream(stream):
                if after is not None:
                    stream.wait_event(after)
                yield
            stream.synchronize()

        return entered

    def host_buffer(self, size, pinned):
        """Memory of the host that begins with a page, as a tensor and as bytes."""
        if not pinned:
            return pages(size)
        tensor = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
        return tensor, memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")

    def holders(self, blocks):
        return Holders(blocks)

    def stepping(self, seconds):
        """A step of that length: a batch is copied to the GPU, a kernel spins, the host sleeps until its end."""
        spin, host = self.streams(1).spin, torch.empty(16 << 20, dtype=torch.uint8, pin_memory=True)
        batch = torch.empty_like(host, device="cuda")

        def step():
            batch.copy_(host, non_blocking=True)
            spin(seconds)
            ended = torch.cuda.Event(blocking=True)
            ended.record()
            ended.synchronize()

        return step

    def energy(self):
        """What the board has drawn since its driver was loaded (J), where the driver counts that."""
        if self.counter is None:
            self.counter = EnergyCounter()
        return self.counter.joules()

    def conditions(self):
        """Clocks, temperature, power and what holds the GPU back, as far as `nvidia-smi` tells."""
        told = smi([*self.READINGS, *self.HELD_BACK])
        readings = {name: number(told.get(field)) for field, name in self.READINGS.items()}
        held_back = [words for field, words in self.HELD_BACK.items() if told.get(field) == "Active"]
        return {**{name: value for name, value in readings.items() if value is not None}, "throttled_by": held_back}


def pages(size):
    memory = mmap.mmap(-1, size)
    # Pages that nothing was written to are not there yet.
    return torch.frombuffer(memory, dtype=torch.uint8).zero_(), memoryview(memory)


class Cpu:
    """The same without a GPU, for tests of this script."""

    name = "cpu"

    def begin(self):
        pass

    def wait(self):
        pass

    def wait_for(self, event):
        pass

    def forget_peaks(self):
        pass

    def peaks(self):
        return {}

    def graphs(self, parts):
        """There are none: parts are done as they are."""
        return parts

    def read(self, number):
        return number.item

    def event(self):
        return time.perf_counter()

    def between(self, begin, end):
        return end - begin

    def streams(self, count):
        return Clock(count)

    def copies(self, to_device, to_host):
        return HostCopies(to_device + to_host)

    def mover(self, pinned):
        return HostMover() if pinned else ThreadMover(self)

    def moment(self):
        return None

    def on_a_stream(self):
        return lambda after=None: contextlib.nullcontext()

    def host_buffer(self, size, pinned):
        return pages(size)

    def holders(self, blocks):
        raise unable("there are no SMs of a CPU")

    def stepping(self, seconds):
        return lambda: time.sleep(seconds)

    def energy(self):
        return None

    def conditions(self):
        return {}


class EnergyCounter:
    """The counter of a board's energy, which NVML has from Volta on."""

    def __init__(self):
        self.board = None
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        board, which = ctypes.c_void_p(), uuid()
        if which is None or self.nvml.nvmlInit_v2() != 0:
            return
        if self.nvml.nvmlDeviceGetHandleByUUID(which.encode(), ctypes.byref(board)) == 0:
            self.board = board

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        if self.board is None:
            return None
        told = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.board, ctypes.byref(millijoules))
        return millijoules.value * 1e-3 if told == 0 else None


def smi(fields):
    """What `nvidia-smi` says of the GPU that PyTorch uses, by field; nothing where it says nothing."""
    asked = ["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits", "-i", uuid() or "0"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in told.splitlines()[0].split(",")] if told.strip() else []
    return dict(zip(fields, values))


def uuid():
    """The GPU that PyTorch uses, as the driver names it; nothing where PyTorch does not tell."""
    told = getattr(torch.cuda.get_device_properties(0), "uuid", None)
    return None if told is None else "GPU-%s" % told


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def identity(request):
    """The GPU, its driver, and what its speed depends on."""
    told = smi(["driver_version", "power.limit", "pcie.link.gen.max", "pcie.link.width.max"])
    driver = told.pop("driver_version", "not told")
    facts = {name: value for name, value in told.items() if number(value) is not None}
    if torch.backends.cudnn.version() is not None:
        facts["cudnn"] = str(torch.backends.cudnn.version())
    return {"name": torch.cuda.get_device_properties(0).name, "driver": "NVIDIA " + driver, "facts": facts}

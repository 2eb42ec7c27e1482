"""Pipelines on the streams of one GPU, of kernels that spin."""


class Streams:
    """Streams of kernels that spin on one SM each, so that none is in the way of another."""

    # Time (s) in which the host issues all of it: nothing begins before.
    GATE = 0.05

    def __init__(self, count):
        self.streams = [torch.cuda.Stream() for _ in range(count)]
        self.cycles = 1e9
        self.cycles = 1e9 * 0.05 / statistics.median(self.alone(0.05, 5))

    def alone(self, seconds, samples, batch=1):
        """What a kernel takes that should take so long: samples of a few in a row."""
        found = []
        for _ in range(samples):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(batch):
                self.spin(seconds)
            end.record()
            torch.cuda.synchronize()
            found.append(begin.elapsed_time(end) * 1e-3 / batch)
        return found

    def spin(self, seconds):
        torch.cuda._sleep(int(seconds * self.cycles))

    def begin(self):
        main = torch.cuda.current_stream()
        self.spin(self.GATE)
        for stream in self.streams:
            stream.wait_stream(main)
        self.begun = [None] * len(self.streams)

    def execute(self, stage, after, durations):
        """Kernels on the stream of a stage, after an event; returns the event of their end."""
        stream = self.streams[stage]
        if after is not None:
            stream.wait_event(after)
        if self.begun[stage] is None:
            self.begun[stage] = torch.cuda.Event(enable_timing=True)
            self.begun[stage].record(stream)
        with torch.cuda.stream(stream):
            for seconds in durations:
                self.spin(seconds)
        done = torch.cuda.Event()
        done.record(stream)
        return done

    def spans(self):
        """From the first start to the last end on each stream."""
        ended = [torch.cuda.Event(enable_timing=True) for _ in self.streams]
        for end, stream in zip(ended, self.streams):
            end.record(stream)
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * 1e-3 for begin, end in zip(self.begun, ended)]


class Clock:
    """The same on a clock that is only counted: what streams would take if nothing but kernels took time."""

    def __init__(self, count):
        self.count = count

    def alone(self, seconds, samples, batch=1):
        return [seconds] * samples

    def begin(self):
        self.now = [0.0] * self.count
        self.begun = [None] * self.count

    def execute(self, stage, after, durations):
        begin = max(self.now[stage], after or 0.0)
        self.begun[stage] = begin if self.begun[stage] is None else self.begun[stage]
        self.now[stage] = begin + sum(durations)
        return self.now[stage]

    def spans(self):
        return [end - begin for begin, end in zip(self.begun, self.now)]


def pipeline(request):
    """Executes the passes of each stage in their order on a stream of its own, each after the one that sends to it."""
    asked, device = request["pipeline"], Cuda() if request["device"] == "cuda" else Cpu()
    device.begin()
    streams = device.streams(len(asked["stages"]))
    chunks = asked["chunks"]
    parts = {name: asked[name + "_s"] / chunks for name in ("forward", "backward_input", "backward_weight")}
    takes = {name: [seconds] for name, seconds in parts.items()}
    takes["backward"] = [parts["backward_input"], parts["backward_weight"]]
    last = max(task["position"] for stage in asked["stages"] for task in stage)
    for _ in range(request["warm_up"]):
        span(streams, asked["stages"], takes, last)
    before = device.conditions()
    figures = {"span_s": [span(streams, asked["stages"], takes, last) for _ in range(request["samples"])]}
    for name, seconds in parts.items():
        alone = streams.alone(seconds, request["samples"], batch=10)
        figures[name + "_s"] = [sample * chunks for sample in alone]
    return {"figures": figures, "before": before, "after": device.conditions()}


def span(streams, stages, takes, last):
    """The longest time of a stage from its first pass to the end of its last: the cost of Qi et al. 2024."""
    streams.begin()
    done, at = {}, [0] * len(stages)
    while any(at[stage] < len(tasks) for stage, tasks in enumerate(stages)):
        before = list(at)
        for stage, tasks in enumerate(stages):
            # A wait for an event that was not recorded is none: passes are issued when what they wait for has been.
            while at[stage] < len(tasks):
                task = tasks[at[stage]]
                needs = sender(task, last)
                if needs is not None and needs not in done:
                    break
                after = done.get(needs)
                done[key(task)] = streams.execute(stage, after, takes[task["phase"]])
                at[stage] += 1
        if at == before:
            raise Trouble("failed", doing="emulating a pipeline", why="its stages wait for each other for ever")
    return max(streams.spans())


def key(task):
    """What others wait for: the gradient of a chunk's input, whether or not that of its weights is beside it."""
    way = {"forward": "forward", "backward": "back", "backward_input": "back", "backward_weight": "weight"}[task["phase"]]
    return way, task["position"], task["micro_batch"]


def sender(task, last):
    """What sends to a pass, if anything does."""
    way, position, micro_batch = key(task)
    if way == "forward" and position > 0:
        return way, position - 1, micro_batch
    if way == "back" and position < last:
        return way, position + 1, micro_batch
    return None

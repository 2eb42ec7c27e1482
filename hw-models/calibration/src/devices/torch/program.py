"""Programs around training steps: what Python does in an iteration, in an execution mode.

A request says what is done, in order:

    forward    blocks from, to and not including: embedding, layers, head
    library    a call of so many seconds that no compiler of Python sees into
    fetch      the loss is read
    decide     the loss is read, and what follows is done if it is a number
    backward, update

and how that is executed:

    eager         operator by operator
    cuda-graphs   blocks that follow each other, the backward pass and the update are a graph each
    compiled      the forward pass is one function of `torch.compile`, which calls of a library break; the backward pass is
                  compiled with it, the update is eager
    co-execution  a thread replays those graphs, while Python goes through the operators of an iteration, as the first one had
                  them, checks each and makes an empty tensor for it; they meet where a value is read

What differs, and is not in the simulator: the thread beside Python is one of Python's, and takes the interpreter's lock for each graph
(Terra's executor is in C++); Python goes through a list of operators, where Terra interprets the program.
"""
import queue
import threading


def library(seconds):
    """A call of a library."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Program:
    """Operator by operator."""

    PASSES = ("forward", "backward", "update")

    def __init__(self, training, device, does):
        self.training, self.device = training, device
        self.does = [(does, ()) if isinstance(does, str) else parts(does) for does in does]
        self.stream = self.loss = None

    def iteration(self):
        self.all(self.does)

    def all(self, steps):
        for name, arguments in steps:
            if getattr(self, name)(*arguments) is False:
                return

    def finish(self):
        """Waits for what goes on beside."""

    def close(self):
        """Ends it."""

    def forward(self, begin, end):
        network = self.training.network
        for at in range(begin, end):
            self.stream = network.block(at, self.stream, self.training.tokens, self.training.targets)
        if end == network.blocks:
            self.loss, self.stream = self.stream, None

    def backward(self):
        self.loss.backward()
        self.loss = self.loss.detach()

    def update(self):
        self.training.update()

    def library(self, seconds):
        library(seconds)

    def fetch(self):
        self.loss.item()

    def decide(self):
        return math.isfinite(self.loss.item())


def parts(does):
    """What is done with its arguments."""
    (name, arguments), = does.items()
    return name, tuple(arguments) if isinstance(arguments, list) else (arguments,)


class Graphs(Program):
    """Passes as graphs."""

    def __init__(self, training, device, does):
        super().__init__(training, device, does)
        passes, steps, before = [], [], None
        for name, arguments in self.does:
            if name not in self.PASSES:
                steps.append((name, arguments))
            elif name == before:
                passes[-1].append((name, arguments))
            else:
                steps.append(("replay", (len(passes),)))
                passes.append([(name, arguments)])
            before = name
        self.replays = device.graphs([lambda captured=captured: self.all(captured) for captured in passes])
        self.does = steps

    def replay(self, at):
        self.replays[at]()


class Compiled(Program):
    """With a compiled forward pass."""

    def __init__(self, training, device, does):
        needs(2, 2, "a compiled program")
        super().__init__(training, device, does)
        torch._dynamo.reset()
        # A compiler leaves a loop alone that it cannot compile as a whole: the function has a line for each block.
        lines, steps = ["def forward(network, stream, tokens, targets):"], [("compiled", ())]
        for name, arguments in self.does:
            if name == "forward":
                lines += ["    stream = network.block(%d, stream, tokens, targets)" % at for at in range(*arguments)]
            elif name == "library" and len(steps) == 1:
                lines.append("    library(%r)" % arguments)
            else:
                steps.append((name, arguments))
        lines.append("    return stream")
        names = {"library": torch._dynamo.disable(library)}
        exec("\n".join(lines), names)
        self.function, self.does = torch.compile(names["forward"]), steps

    def compiled(self):
        training = self.training
        self.loss = self.function(training.network, None, training.tokens, training.targets)


class CoExecution(Graphs):
    """Graphs that a thread replays, beside Python."""

    # Graphs that may be under way when an iteration begins.
    DEPTH = 1

    def __init__(self, training, device, does):
        self.steps = traced(Program(training, device, does))
        super().__init__(training, device, does)
        # The operator of each place.
        self.trace = dict(enumerate(operator for _, _, operators in self.steps for operator in operators))
        self.begun, self.values = queue.SimpleQueue(), queue.SimpleQueue()
        self.room = threading.Semaphore(1 + self.DEPTH)
        # The interpreter's lock is handed over soon.
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        self.thread = threading.Thread(target=self.beside, daemon=True)
        self.thread.start()

    def beside(self):
        """The thread of the graph."""
        while self.begun.get():
            for name, arguments in self.does:
                if name == "replay":
                    self.replay(*arguments)
                elif name != "library":
                    self.values.put(self.device.read(self.loss))
            self.room.release()

    def iteration(self):
        self.acquire()
        self.begun.put(True)
        place = 0
        for name, arguments, operators in self.steps:
            for operator in operators:
                self.check(place, operator)
                place += 1
            if name == "library":
                library(*arguments)
            elif name not in self.PASSES:
                self.value()

    def acquire(self):
        """Waits for room; a thread that failed gives none."""
        if not self.room.acquire(timeout=LONGEST):
            raise Trouble("failed", doing="co-execution", why="the thread of the graph does not go on")

    def check(self, place, operator):
        """Python's side of an operator: it is that of the trace, and gives an empty tensor."""
        if self.trace.get(place) != operator:
            raise Trouble("failed", doing="co-execution", why="`%s` is not in the trace" % operator)
        return torch.empty(0)

    def value(self):
        if not math.isfinite(self.values.get(timeout=LONGEST)()):
            raise Trouble("failed", doing="training", why="the loss is no number")

    def finish(self):
        for _ in range(1 + self.DEPTH):
            self.acquire()
        self.room.release(1 + self.DEPTH)

    def close(self):
        self.begun.put(False)
        self.thread.join(LONGEST)
        sys.setswitchinterval(self.interval)


# Longest time (s) that one thread waits for the other.
LONGEST = 60


def traced(program):
    """The steps of an iteration with their operators. It is done."""
    found = []
    for name, arguments in program.does:
        with Watch() as watch:
            getattr(program, name)(*arguments)
        found.append((name, arguments, [operator for operator, _ in watch.found]))
    return found


EXECUTIONS = {"eager": Program, "cuda-graphs": Graphs, "compiled": Compiled, "co-execution": CoExecution}
# Iterations that follow each other before the host waits for the GPU.
ITERATIONS = 10


def program(request):
    """Times iterations: means of some that follow each other."""
    device = Cuda() if request["device"] == "cuda" else Cpu()
    device.begin()
    execution = EXECUTIONS[request["program"]["execution"]]
    launch = "graph" if issubclass(execution, Graphs) else "eager"
    training = Training(dict(request["model"], launch=launch), request["device"])
    running = execution(training, device, request["program"]["does"])
    try:
        repeated(running, device, request["warm_up"])
        before = device.conditions()
        # The clocks fall while they are asked for.
        repeated(running, device, ITERATIONS)
        times = [repeated(running, device, ITERATIONS) for _ in range(request["samples"])]
        check(running.loss)
        figures = {"step_s": times, "loss": [running.loss.item()]}
        return {"figures": figures, "before": before, "after": device.conditions()}
    finally:
        running.close()


def repeated(running, device, iterations):
    """The mean time of iterations, from a host that has waited until it has waited again."""
    begin = time.perf_counter()
    for _ in range(iterations):
        running.iteration()
    running.finish()
    device.wait()
    return (time.perf_counter() - begin) / iterations

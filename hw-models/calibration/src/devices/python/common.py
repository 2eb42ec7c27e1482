"""What every script begins with: its greeting, the loop over questions, and errors that become answers.

A question and an answer are a line of JSON each: {"answer": ...} or {"error": {KIND: {...}}}, KIND being "missing" (what,
remedy), "unable" (device, why), "exhausted" (what, remedy) or "failed" (doing, why)."""

import gc
import os
import signal
import warnings

# Answers go to where standard output went; what libraries print goes where errors go.
_answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
os.dup2(2, 1)
# An interrupt reaches every process of a terminal: the one that asks ends this one by closing its input.
signal.signal(signal.SIGINT, signal.SIG_IGN)

OLDEST_PYTHON = (3, 8)
OLDEST_TORCH = (1, 13)
GET_TORCH = "install it (`pip install torch`), or name a Python that has it with `--python`"


class Trouble(Exception):
    """An error that is told as it is."""

    def __init__(self, kind, **told):
        super().__init__(kind)
        self.reply = {"error": {kind: told}}


def unable(why):
    return Trouble("unable", device="PyTorch", why=why)


def older(torch, than):
    """Whether PyTorch is older than a version: major, minor."""
    return tuple(int(number) for number in torch.__version__.split("+")[0].split(".")[:2]) < than


def needs(major, minor, what, asked=True):
    """Refuses what is asked where this PyTorch is too old for it."""
    if asked and older(torch, (major, minor)):
        raise unable("%s needs PyTorch %d.%d, this is %s" % (what, major, minor, torch.__version__))


def serve(answer):
    """Greets, then answers each question with what `answer` gives for it."""
    if sys.version_info < OLDEST_PYTHON:
        wanted = "Python %d.%d" % OLDEST_PYTHON
        _say({"error": {"missing": {"what": wanted, "remedy": "this is %s: name a newer one with `--python`" % _python()}}})
        return
    _say({"answer": _greeting()})
    for line in sys.stdin:
        # What was used up is given back before the answer: an exception holds its frames, and they hold tensors.
        reply = _reply(answer, line)
        if "error" in reply:
            gc.collect()
            if torch is not None and torch.cuda.is_initialized():
                _quietly(torch.cuda.empty_cache)
        _say(reply)


def _say(reply):
    _answers.write(json.dumps(reply) + "\n")
    _answers.flush()


def _reply(answer, line):
    try:
        return {"answer": answer(json.loads(line))}
    except Trouble as trouble:
        return trouble.reply
    except Exception as error:
        return {"error": _told(error)}


def _told(error):
    said = str(error).strip()
    first = said.splitlines()[0] if said else type(error).__name__
    if isinstance(error, MemoryError) or "can't allocate memory" in said:
        return {"exhausted": {"what": "the host's memory", "remedy": "end other programs"}}
    if type(error).__name__ == "OutOfMemoryError" or "CUDA error: out of memory" in said:
        remedy = "end other processes on it: `nvidia-smi` lists them"
        return {"exhausted": {"what": "the GPU's memory", "remedy": remedy}}
    return {"failed": {"doing": "running PyTorch", "why": "%s: %s" % (type(error).__name__, first)}}


def _quietly(call):
    try:
        call()
    except Exception:
        pass


def _python():
    return "%d.%d.%d" % sys.version_info[:3]


def _greeting():
    cuda, gpus = _cuda()
    threads = 0 if torch is None else torch.get_num_threads()
    return {"python": _python(), "torch": _torch_found, "cuda": cuda, "gpus": gpus, "threads": threads}


def _missing(why, remedy):
    return {"missing": {"why": why, "remedy": remedy}}


def _import_torch():
    """PyTorch, or none; and what is told of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch
        version = str(torch.__version__)
        old = older(torch, OLDEST_TORCH)
    except Exception as error:
        return None, _missing("%s cannot import it: %s" % (sys.executable, error), GET_TORCH)
    if old:
        remedy = "update it (`pip install --upgrade torch`)"
        return None, _missing("version %s is older than %d.%d" % ((version,) + OLDEST_TORCH), remedy)
    return torch, {"present": version}


def _cuda():
    """What is told of CUDA, and of the GPUs."""
    get = "install a build with CUDA (https://pytorch.org/get-started), or name a Python that has one with `--python`"
    if torch is None:
        return _missing("there is no PyTorch", GET_TORCH), []
    if torch.version.cuda is None:
        return _missing("PyTorch %s was built without CUDA" % torch.__version__, get), []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        there = torch.cuda.is_available()
    if not there:
        # PyTorch says in a warning that a driver is too old.
        why = str(said[0].message).strip().splitlines()[0] if said else "PyTorch finds no GPU"
        return _missing(why, "look at `nvidia-smi`, at `CUDA_VISIBLE_DEVICES`, and in a container at `--gpus all`"), []
    try:
        gpus = [_gpu(torch.cuda.get_device_properties(number)) for number in range(torch.cuda.device_count())]
    except Exception as error:
        return _missing("PyTorch cannot use the GPU: %s" % str(error).splitlines()[0], "look at `nvidia-smi`"), []
    return {"present": torch.version.cuda}, gpus


def _gpu(told):
    return {
        "name": told.name,
        "capability": told.major * 10 + told.minor,
        "sms": told.multi_processor_count,
        "memory": told.total_memory,
        "cache": getattr(told, "L2_cache_size", 0),
    }


torch, _torch_found = _import_torch() if sys.version_info >= OLDEST_PYTHON else (None, None)

"""What the package does: a function each."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from . import _native
from ._result import Result

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""A path of a YAML file, the name of a scenario of the library, or a dict."""

SEED = 1
GIVEN = "<scenario>"


def run(
    scenario: Scenario,
    *,
    set: Mapping[str, Any] | None = None,
    variants: Iterable[str] | None = None,
    seed: int = SEED,
    jobs: int | None = None,
) -> Result:
    """Simulate every variant of a scenario at every point of its sweep, or search for the best.

    Other threads go on meanwhile. Ctrl-C raises ``KeyboardInterrupt`` at once; simulations under
    way end in the background, and their results are lost.

    Args:
        scenario: A path, a name of :func:`library`, or a dict with the keys of a YAML file.
            Quantities are texts with units, ``"80 GB"`` or ``"10 ms"``; paths in a dict are
            relative to the working directory.
        set: Settings over those of the scenario, by dotted path:
            ``{"training.micro_batch": 2}``. A path that is swept keeps this value only.
        variants: Names of the variants to run; all of them if ``None``.
        seed: Root of all randomness.
        jobs: Simulations at a time; one for each processor if ``None``.

    Returns:
        What was found. That a run does not fit in memory is a result, no error.

    Raises:
        ScenarioError: The scenario is wrong; ``problems`` has every mistake.
        Refused: Too many runs, an unknown variant, or no run that is possible.
    """
    return _run(_Request("run", scenario, set), variants, seed, jobs)


def sweep(
    scenario: Scenario,
    over: Mapping[str, Sequence[Any]],
    *,
    where: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    set: Mapping[str, Any] | None = None,
    variants: Iterable[str] | None = None,
    seed: int = SEED,
    jobs: int | None = None,
) -> Result:
    """Simulate a scenario at all combinations of values of some settings.

    >>> sweep("my.yaml", {"training.micro_batch": [1, 2, 4], "parallelism.pipeline": [2, 4]})

    Args:
        scenario: As for :func:`run`. What it sweeps itself is swept as well.
        over: Values by dotted path; the last path changes fastest.
        where: Conditions that points must meet, ``"training.micro_batch <= 2"``.
        cases: Paths whose values are problems to solve, such as the model, rather than choices.
        set, variants, seed, jobs: As for :func:`run`.

    Returns:
        A run for each variant at each point.

    Raises:
        ScenarioError: The scenario is wrong, or a path or value of ``over`` is.
        Refused: As for :func:`run`.
    """
    how = _given(where=where, cases=cases)
    request = _Request("sweep", scenario, set, {"over": over, **how}, {"sweep": over, **how})
    return _run(request, variants, seed, jobs)


def search(
    scenario: Scenario,
    over: Mapping[str, Any],
    *,
    minimise: str | Sequence[str] | None = None,
    subject_to: Sequence[str] | None = None,
    gap: str | None = None,
    keep: int | None = None,
    budget: str | None = None,
    alternatives: bool | None = None,
    where: Sequence[str] | None = None,
    set: Mapping[str, Any] | None = None,
    variants: Iterable[str] | None = None,
    seed: int = SEED,
    jobs: int | None = None,
) -> Result:
    """Search for the best plan, with a proof of how much better any other could be.

    >>> search("my.yaml", {"parallelism": "auto", "training.micro_batch": "auto"}, gap="1 %")

    Args:
        scenario: As for :func:`run`; it must not sweep. What it searches itself is replaced.
        over: Values by dotted path, as for :func:`sweep`, or ``"auto"`` for those that model,
            machine and batch imply; ``"techniques"`` is a list of techniques.
        minimise: The objective; ``"step_time"`` if ``None``. Others are in :func:`schema`; of a
            list the front is found.
        subject_to: Limits that a plan must keep, ``"peak_memory <= 76 GiB"``.
        gap: The search ends when the best plan is proven within this of any other; ``"1 %"`` if
            ``None``.
        keep: Plans that are reported, the best first; 10 if ``None``.
        budget: Time after which it ends with the best plan so far, ``"10 min"``.
        alternatives: Looks for plans without the techniques of the best one, plans by rules of
            thumb, and slower parts with which another is better; ``True`` if ``None``.
        where: Conditions that plans must meet, as for :func:`sweep`.
        set, variants, seed, jobs: As for :func:`run`.

    Returns:
        The best plans, the best first, and the proof in ``summary["search"]``.

    Raises:
        ScenarioError: The scenario is wrong, or the space that is searched.
        Refused: As for :func:`run`.
    """
    limits = _given(subject_to=subject_to, gap=gap, keep=keep, budget=budget)
    how = {**_given(minimise=minimise, alternatives=alternatives), **limits}
    space, rules = {"over": over, **how}, _given(where=where)
    laid = {"search": space, **rules}
    return _run(_Request("search", scenario, set, {**space, **rules}, laid), variants, seed, jobs)


def check(scenario: Scenario, *, set: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Check a scenario and size it up; nothing is simulated.

    Returns:
        ``name``, ``variants``, and ``plan``: points, runs, those that are impossible with reasons,
        activities, and seconds on one core (``estimated_s``).

    Raises:
        ScenarioError: The scenario is wrong; ``problems`` has every mistake.
        Refused: It is right, but would not be run.
    """
    experiment = _Request("check", scenario, set).load()
    return {
        "name": experiment.name,
        "variants": experiment.variants,
        "plan": json.loads(experiment.plan()),
    }


def show(
    scenario: Scenario,
    variant: str | None = None,
    *,
    set: Mapping[str, Any] | None = None,
) -> str:
    """Write the first run of a variant as YAML, every setting with its origin in a comment.

    Args:
        scenario, set: As for :func:`run`.
        variant: The variant; the first if ``None``.
    """
    return _Request("show", scenario, set).load().show(variant)


def export(
    scenario: Scenario,
    to: str,
    variant: str | None = None,
    *,
    set: Mapping[str, Any] | None = None,
) -> str:
    """Write a plan as a training framework is told it.

    Args:
        scenario, set: As for :func:`run`; the model is a transformer.
        to: ``"megatron"`` (a Bash array of arguments), ``"deepspeed"`` (JSON), ``"torchtitan"``
            (TOML) or ``"megatron-bridge"`` (YAML).
        variant: The variant; the first if ``None``.

    Raises:
        ScenarioError: The framework cannot do what the plan says, setting by setting.
    """
    return _Request("export", scenario, set).load().export(to, variant)


def plan(
    model: str,
    machine: str,
    *,
    fabric: str | None = None,
    global_batch: int | None = None,
    sequence: int | None = None,
) -> dict[str, Any]:
    """Make a scenario that searches for the best plan of a model on a machine.

    >>> foretrain.run(foretrain.plan("llama-3-8b", "8xdgx-h100"))

    Args:
        model: A published model, or the path of a Hugging Face ``config.json``.
        machine: Nodes of one kind: ``"dgx-h100"``, or ``"8xdgx-h100"`` for several.
        fabric: Network between the nodes.
        global_batch: Sequences of a step; those of four million tokens if ``None``.
        sequence: Tokens of a sequence; as the model has positions, at most 4,096, if ``None``.

    Raises:
        ValueError: A name that is not known, with what may have been meant.
    """
    scenario = _native.best_plan(model, machine, fabric, global_batch, sequence)
    loaded: dict[str, Any] = json.loads(scenario)
    return loaded


def validate(sets: Iterable[str] | None = None, *, jobs: int | None = None) -> dict[str, Any]:
    """Compare predictions with measurements that come with the package.

    Args:
        sets: Names of sets of measurements; all if ``None``, which takes minutes.
        jobs: Predictions at a time; one for each processor if ``None``.

    Returns:
        Errors by set and part, and every row beside its prediction (seconds or bytes).

    Raises:
        ValueError: A set that there is not, with what may have been meant.
    """
    judged = _native.validate(_names(sets), _jobs(jobs))
    loaded: dict[str, Any] = json.loads(judged)
    return loaded


def library() -> list[str]:
    """Names of the scenarios that come with the package."""
    return _native.library()


def schema() -> dict[str, Any]:
    """The JSON Schema of scenarios."""
    loaded: dict[str, Any] = json.loads(_native.schema())
    return loaded


def _run(
    request: _Request, variants: Iterable[str] | None, seed: int, jobs: int | None
) -> Result:
    chosen = _names(variants)
    again = request.again(chosen, seed)
    return Result(request.load().run(chosen, seed, _jobs(jobs), again))


@dataclass(frozen=True)
class _Request:
    """A scenario, and what a call lays over it."""

    verb: str
    scenario: Scenario
    set: Mapping[str, Any] | None
    call: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the call that are more than the scenario."""
    laid: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a file that extends the scenario."""

    def load(self) -> _native.Experiment:
        path, texts = _place(self.scenario), []
        if isinstance(self.scenario, Mapping):
            texts.append((path, _text(self.scenario, indent=2)))
        if self.laid:
            laid = f"<{self.verb}>"
            texts.append((laid, _text({"extends": path, **self.laid}, indent=2)))
            path = laid
        return _native.Experiment(path, texts, self.settings())

    def settings(self) -> list[str]:
        return [f"{path}={_text(value)}" for path, value in (self.set or {}).items()]

    def again(self, variants: list[str], seed: int) -> str:
        """What gives the same results: a command where there is one, otherwise a call."""
        if isinstance(self.scenario, Mapping) or self.laid:
            more = _given(set=self.set, variants=variants or None)
            call = {**self.call, **more} if seed == SEED else {**self.call, **more, "seed": seed}
            given = {name: json.loads(_text(value)) for name, value in call.items()}
            scenario = json.loads(_text(self.scenario))
            words = [repr(scenario), *(f"{name}={value!r}" for name, value in given.items())]
            return f"foretrain.{self.verb}({', '.join(words)})"
        words = ["foretrain", "run", os.fspath(self.scenario)]
        words += [word for setting in self.settings() for word in ("--set", setting)]
        words += [word for variant in variants for word in ("--variant", variant)]
        return shlex.join(words if seed == SEED else [*words, "--seed", str(seed)])


def _place(scenario: Scenario) -> str:
    """The name by which a scenario is read: a file wins over the library."""
    if isinstance(scenario, Mapping):
        return GIVEN
    path = os.fspath(scenario)
    if not isinstance(path, str):
        raise TypeError(f"a scenario is a path, a name or a dict, not {path!r}")
    is_path = not isinstance(scenario, str) or any(mark in path for mark in "/\\.:")
    return path if is_path or os.path.isfile(path) else f"library:{path}"


def _names(names: Iterable[str] | None) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"names are a list: [{names!r}]")
    return list(names or ())


def _jobs(jobs: int | None) -> int | None:
    if jobs is not None and not 1 <= jobs <= 1024:
        raise ValueError(f"jobs must be from 1 to 1024, not {jobs}")
    return jobs


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _text(value: Any, indent: int | None = None) -> str:
    """A value as JSON, which is YAML, too."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """What JSON has for paths, ranges, arrays and numbers of NumPy, and other mappings."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{value!r} has no place in a scenario")

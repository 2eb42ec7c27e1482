"""Rehearse a training run before anyone pays for it.

A scenario is a machine, a model and a way of training. It is a dict, the path of a YAML file, or
the name of a scenario that comes with the package (:func:`library`):

>>> import foretrain
>>> result = foretrain.run("pipeline-schedules", set={"training.micro_batches": 48})
>>> result.frame()        # a row for every run, with pandas
>>> result                # in a notebook: the report

:func:`run` simulates a scenario, :func:`sweep` all values of some settings, and :func:`search`
looks for the best of them. A mistake in a scenario raises :class:`ScenarioError`, which shows every
problem on its line.
"""

from ._api import (
    check,
    export,
    library,
    plan,
    run,
    schema,
    search,
    show,
    sweep,
    validate,
)
from ._errors import Problem, Refused, ScenarioError
from ._native import __version__
from ._result import Result

__all__ = [
    "Problem",
    "Refused",
    "Result",
    "ScenarioError",
    "__version__",
    "check",
    "export",
    "library",
    "plan",
    "run",
    "schema",
    "search",
    "show",
    "sweep",
    "validate",
]

"""Exceptions, raised by the native half."""

from __future__ import annotations

import json
from typing import Any, TypedDict


class Place(TypedDict, total=False):
    """A place in a file."""

    file: str
    line: int
    column: int
    label: str


class Problem(TypedDict):
    """One mistake of a scenario."""

    message: str
    """The mistake, in one sentence."""
    file: str | None
    """File it is in: a path, ``library:NAME``, ``--set``, or ``<scenario>`` for a dict as JSON."""
    line: int | None
    """Line of the file, from 1."""
    column: int | None
    """Column in characters, from 1."""
    help: str | None
    """The remedy."""
    places: list[Place]
    """Every place it is about; the first is the one above."""


class ScenarioError(ValueError):
    """A scenario is wrong. Its text shows every problem on its line, as the command line does."""

    def __init__(self, text: str, problems: str) -> None:
        super().__init__(text, problems)
        self.problems: list[Problem] = [_problem(entry) for entry in json.loads(problems)]
        """All problems, by their place."""

    def __str__(self) -> str:
        return str(self.args[0])


class Refused(ValueError):
    """A scenario is right and still was not run: too many runs, or none that is possible."""


def _problem(entry: dict[str, Any]) -> Problem:
    places: list[Place] = entry.get("places", [])
    first: Place = places[0] if places else {}
    return Problem(
        message=entry["message"],
        file=first.get("file"),
        line=first.get("line"),
        column=first.get("column"),
        help=entry.get("help"),
        places=places,
    )

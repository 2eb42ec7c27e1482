"""Results of a run."""

from __future__ import annotations

import html
import io
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from ._native import Outcome

HEIGHT = 720


class Result:
    """What a scenario, a sweep or a search found. In a notebook it shows its report."""

    def __init__(self, outcome: Outcome | _Pages) -> None:
        self._outcome = outcome

    @property
    def finding(self) -> str:
        """The verdict, in one sentence; ``summary["conditions"]`` has more."""
        return self._outcome.finding

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Everything, as in ``results.json``. Names end in their unit: ``_s``, ``_bytes``."""
        summary: dict[str, Any] = json.loads(self._outcome.json())
        return summary

    @property
    def runs(self) -> list[dict[str, Any]]:
        """A dict for every variant at every point; of a search the best plans, the best first.

        ``fits`` is false where a run has no result; ``failure`` then says why. What has no meaning
        for a run is absent.
        """
        runs: list[dict[str, Any]] = self.summary["variants"]
        return runs

    @property
    def best(self) -> dict[str, Any] | None:
        """The run with the most tokens (samples, steps) a second; of a search the best plan.

        ``None`` if no run has a step time.
        """
        index = self._outcome.best
        return None if index is None else self.runs[index]

    def frame(self) -> pandas.DataFrame:
        """A row for every run, with the columns of ``results.csv`` (``time_breakdown_s.compute``).

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as missing:
            remedy = "a frame needs pandas: `pip install pandas`, or use `runs`, a list of dicts"
            raise ImportError(remedy) from missing
        # Variants may be called `none` or `1`; only what is empty is absent. This engine reads
        # numbers as they were written.
        return pandas.read_csv(
            io.StringIO(self.to_csv()),
            dtype={"variant": str},
            keep_default_na=False,
            na_values=[""],
            engine="python",
        )

    def to_csv(self) -> str:
        """A row for every run, as in ``results.csv``."""
        return self._outcome.csv()

    @cached_property
    def report(self) -> str:
        """The report: one page of HTML that needs no network."""
        return self._outcome.report()

    @property
    def scenario(self) -> str:
        """The run that the report shows, as YAML: the first, or the best of a search."""
        return self._outcome.scenario

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the files of the command line: results, report and scenario.

        Args:
            folder: Made if it is not there; files of earlier results in it are replaced.

        Returns:
            The path of the report.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        pages = {
            "results.json": self._outcome.json(),
            "results.csv": self.to_csv(),
            "scenario.yaml": self.scenario,
            "report.html": self.report,
        }
        for name, page in pages.items():
            # Readers find the old page or the new one, never half of it.
            fresh = place / f".{name}"
            fresh.write_text(page, encoding="utf-8", newline="")
            fresh.replace(place / name)
        return place / "report.html"

    def __reduce__(self) -> tuple[type[Result], tuple[_Pages]]:
        """Other processes get the pages that the native half would write."""
        it = self._outcome
        pages = {"json": it.json(), "csv": it.csv(), "report": self.report}
        return Result, (_Pages(it.finding, it.scenario, it.best, pages),)

    def __repr__(self) -> str:
        return self.finding

    def _repr_html_(self) -> str:
        page = html.escape(self.report)
        style = f"width: 100%; height: {HEIGHT}px; border: 1px solid #ccc; background: #fff"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


@dataclass(frozen=True)
class _Pages:
    """An outcome of another process."""

    finding: str
    scenario: str
    best: int | None
    pages: dict[str, str]

    def json(self) -> str:
        return self.pages["json"]

    def csv(self) -> str:
        return self.pages["csv"]

    def report(self) -> str:
        return self.pages["report"]

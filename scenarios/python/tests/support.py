"""Scenarios that tests begin with."""

from __future__ import annotations

import importlib.util
import os
import unittest
from collections.abc import Callable
from typing import Any

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def pipeline(**more: Any) -> dict[str, Any]:
    """Four stages of 25 ms for each of eight micro-batches; GPipe does not fit."""
    stages = {
        "stages": 4,
        "forward": "10 ms",
        "backward_input": "10 ms",
        "backward_weight": "5 ms",
        "transfer": "0 ms",
        "activation": "1 GB",
        "device": {"memory": "6 GB"},
    }
    return {
        "name": "Small pipeline",
        "model": {"profiled_pipeline": stages},
        "training": {"micro_batches": 8, "micro_batch": 2},
        "variants": {
            "gpipe": {"parallelism": {"schedule": "gpipe"}},
            "1f1b": {"parallelism": {"schedule": "1f1b"}},
        },
        **more,
    }


def needs(*modules: str) -> Callable[[Any], Any]:
    """Skips a test whose modules are missing; where tools are required, it fails instead."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    required = os.environ.get("FORETRAIN_REQUIRE_TOOLS")
    return unittest.skipIf(bool(missing) and not required, f"without {', '.join(missing)}")

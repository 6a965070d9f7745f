"""Hypothesis draws the same examples in every run; `HYPOTHESIS_PROFILE=explore` draws others.

Where Python may not write bytecode beside the source, it is written into the cache of pytest.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, max_examples=16, **_COMMON)
settings.register_profile("explore", derandomize=False, max_examples=1_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

if sys.dont_write_bytecode:
    # Without bytecode, each worker and each process of a test would compile all modules again.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

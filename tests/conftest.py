"""Hypothesis draws the same examples in every run; `HYPOTHESIS_PROFILE=explore` draws others."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, max_examples=16, **_COMMON)
settings.register_profile("explore", derandomize=False, max_examples=1_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

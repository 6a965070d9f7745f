"""Wait for a condition that another thread or process brings about."""

from __future__ import annotations

import time


def wait_until(condition, seconds=60, pause=0.02):
    """Return when a condition holds; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(pause)

"""Named points of an epoch at which a test harness can inject a fault.

| point | what has just happened |
|---|---|
| claimed | the run owns the checkpoint |
| recovered | state is checked, pending outputs are published, leftovers are deleted |
| opened | the opening of the epoch is in the log |
| segment | a shard has written its state segment |
| tasks | all tasks of the epoch have ended |
| staged | the output tables are stored in the checkpoint |
| appended | the epoch's entry is in the log |
| sink | one table was written to its sink |
| published | all tables are written to their sinks |
| cleaned | files that nothing needs any more are deleted |
| released | the run has ended in order |

Without a harness, a point costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None
"""The function that a harness wants to be called at each point, with the point's name."""
POINTS = tuple(
    line.split("|")[1].strip()
    for line in (__doc__ or "").splitlines()
    if line.startswith("| ") and not line.startswith("| point")
)


def reached(point: str) -> None:
    """Call the harness, if there is one, at the point with this name."""
    if hook is not None:
        hook(point)

"""What travels with a row on its way to an operator, in columns of our own."""

from __future__ import annotations

TICK = "__tick"
"""Where the row lies on the attribute of the port."""
LATE_DEGREE = "__late_degree"
"""How far it is behind the newest row that arrived before it (semantics 25)."""
KEPT = "__kept"
"""Whether it has passed the filters so far; it may be dropped once progress is measured."""
BEHIND = "__behind"
"""The mark that it must not be behind: the one in force when it came, if it was put aside since."""
STRETCH = "__stretch"
"""The number of the stretch with which it is put aside."""
DEAD = "__dead"
"""Whether it is late whatever is still open (consistent slack)."""

"""The experiments of the papers, run again: each says what must hold, and whether it does.

A module named like `w1` holds one experiment, as `EXPERIMENT`; `registry` finds it by its name.
"""

from lowwater.experiments.contract import Check, Compared, Experiment, Outcome
from lowwater.experiments.record import Record
from lowwater.experiments.registry import experiments, find

__all__ = ["Check", "Compared", "Experiment", "Outcome", "Record", "experiments", "find"]

"""Prodding: what is known about a window before it is complete (PROD).

`Arrivals` learns which share of a window's rows has arrived, `Calibrator` what that makes of its
aggregates and how wrong it may be, `RunningAccuracy` how wrong it has been, `Steering` how early to
ask. All are functions (memory, input) → (memory, output); memory is JSON and lives in the log.
"""

from lowwater.prodding.accuracy import Judge, RunningAccuracy, accuracy, judged
from lowwater.prodding.arrivals import Arrivals, measure
from lowwater.prodding.calibration import Calibrator, Early, Judged, Kind, Pairs
from lowwater.prodding.steering import Observation, Steering

__all__ = [
    "Arrivals",
    "Calibrator",
    "Early",
    "Judge",
    "Judged",
    "Kind",
    "Observation",
    "Pairs",
    "RunningAccuracy",
    "Steering",
    "accuracy",
    "judged",
    "measure",
]

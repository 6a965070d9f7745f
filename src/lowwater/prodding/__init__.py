"""Prodding: an answer now, the exact one later (PROD)."""

from lowwater.prodding.arrivals import Arrivals
from lowwater.prodding.calibration import Early, Judged
from lowwater.prodding.clock import EventClock
from lowwater.prodding.grids import Grid, grids
from lowwater.prodding.learning import Learning
from lowwater.prodding.pairing import HASHES
from lowwater.prodding.policies import ProdPolicy, aggressive, every, on_demand
from lowwater.prodding.prodder import PROD_TALLIES, Prodder
from lowwater.prodding.sidelining import Sideline, Sideliner, sideline

__all__ = [
    "HASHES",
    "PROD_TALLIES",
    "Arrivals",
    "Early",
    "EventClock",
    "Grid",
    "Judged",
    "Learning",
    "ProdPolicy",
    "Prodder",
    "Sideline",
    "Sideliner",
    "aggressive",
    "every",
    "grids",
    "on_demand",
    "sideline",
]

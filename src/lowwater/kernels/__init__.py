"""The operators: pure, vectorised functions (state, data, control) -> (state, emissions)."""

from lowwater.kernels.aggregate import Step
from lowwater.kernels.ingest import ingest, ingest_blocks
from lowwater.kernels.packets import Packet
from lowwater.kernels.plan import ARRIVAL, WindowPlan
from lowwater.kernels.stepping import step

__all__ = ["ARRIVAL", "Packet", "Step", "WindowPlan", "ingest", "ingest_blocks", "step"]

"""The operators: pure, vectorised functions (state, data, control) -> (state, emissions)."""

from lowwater.kernels.aggregate import Step, step
from lowwater.kernels.ingest import ingest, ingest_blocks
from lowwater.kernels.packets import Packet
from lowwater.kernels.plan import WindowPlan

__all__ = ["Packet", "Step", "WindowPlan", "ingest", "ingest_blocks", "step"]

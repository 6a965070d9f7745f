"""The operators: pure, vectorised functions (state, data, control) -> (state, emissions)."""

from lowwater.kernels.aggregate import Step
from lowwater.kernels.dataflow import Dataflow, Input, Operator, Output, Route
from lowwater.kernels.ingest import Came, ingest, ingest_epoch, portions
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.packets import Packet
from lowwater.kernels.plan import ARRIVAL, WindowPlan
from lowwater.kernels.stepping import step
from lowwater.kernels.working import Kernel, work

__all__ = [
    "ARRIVAL",
    "Came",
    "Dataflow",
    "Input",
    "Kernel",
    "Operator",
    "OperatorPlan",
    "Output",
    "Packet",
    "Route",
    "Step",
    "WindowPlan",
    "ingest",
    "ingest_epoch",
    "portions",
    "step",
    "work",
]

"""Aggregates: lift rows into cells, combine cells, lower them to results."""

from lowwater.aggregates.bags import spread
from lowwater.aggregates.partial import Part, Partial, Rows
from lowwater.aggregates.parts import MultipleCount, RowCount, Span
from lowwater.aggregates.spec import Aggregate, Count, Growth, column_type
from lowwater.aggregates.user import Collected, Continued, Folding

__all__ = [
    "Aggregate",
    "Collected",
    "Continued",
    "Count",
    "Folding",
    "Growth",
    "MultipleCount",
    "Part",
    "Partial",
    "RowCount",
    "Rows",
    "Span",
    "column_type",
    "spread",
]

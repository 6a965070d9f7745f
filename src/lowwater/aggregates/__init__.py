"""Aggregates: lift rows into cells, combine cells, lower them to results."""

from lowwater.aggregates.partial import Part, Partial, Rows
from lowwater.aggregates.parts import RowCount
from lowwater.aggregates.spec import Aggregate, column_type

__all__ = ["Aggregate", "Part", "Partial", "RowCount", "Rows", "column_type"]

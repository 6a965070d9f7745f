"""Expressions over rows: filters and computed columns, evaluated by DuckDB outside Spark."""

"""Expressions for filters and computed columns, evaluated by DuckDB outside Spark."""

"""Builds a query from the syntax tree of a CQL text."""

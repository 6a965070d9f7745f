"""Builds a query from the syntax tree of a text."""

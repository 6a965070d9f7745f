"""Prints a query as a CQL text."""

"""Prints a query as text."""

"""Sinks: they store or print the rows of an output."""

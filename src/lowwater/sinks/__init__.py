"""Sinks, which store or print the rows of an output."""

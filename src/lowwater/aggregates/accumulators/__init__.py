"""Accumulators: the state of an aggregate in a cell, for many cells at once."""

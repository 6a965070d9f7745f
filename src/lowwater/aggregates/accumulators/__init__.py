"""Accumulators: the state that aggregates keep in each cell, as columns over many cells."""

"""Accumulators: what a cell keeps for an aggregate, for many cells at once."""

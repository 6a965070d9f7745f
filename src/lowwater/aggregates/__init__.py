"""Aggregates: the functions that windows compute, and the accumulators in their cells."""

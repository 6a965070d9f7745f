"""Aggregate functions of windows, and the accumulators that hold their state."""

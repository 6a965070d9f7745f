"""Aggregates: what a window computes, and what a cell keeps for it."""

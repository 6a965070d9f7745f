"""Operators: each has a plan and a kernel, (state, data, control) → (state, emissions)."""

"""Operators: a plan and a kernel each, (state, data, control) → (state, emissions)."""

"""Queries: what the user writes."""

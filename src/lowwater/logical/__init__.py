"""Logical plans: a query as a tree of nodes."""

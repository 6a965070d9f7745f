"""Logical plans: the nodes of a query."""

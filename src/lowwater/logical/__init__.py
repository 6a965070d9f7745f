"""Logical plans: the nodes that a query is made of."""

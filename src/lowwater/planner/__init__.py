"""Planner: from logical nodes to a physical plan, and which features go together."""

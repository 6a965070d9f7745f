"""Planner: logical nodes become a physical plan; a table lists which features go together."""

"""The planner: turns logical nodes into a physical plan, and refuses incompatible features."""

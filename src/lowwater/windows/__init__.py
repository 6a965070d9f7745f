"""Windows: their kinds, the rows that belong to them, and when they are complete (WID)."""

"""Windows: what a window is, which rows belong to it, and when it is complete (WID)."""

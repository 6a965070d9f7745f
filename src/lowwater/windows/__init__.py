"""Window kinds: which rows belong to a window, and when a window is complete (WID)."""

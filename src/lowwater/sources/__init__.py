"""Sources, which read the rows of streams."""

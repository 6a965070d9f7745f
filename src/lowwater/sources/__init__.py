"""Sources: they read the rows of a stream."""

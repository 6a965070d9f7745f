"""Sources: where the rows of a stream come from."""

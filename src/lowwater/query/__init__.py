"""The query interface: streams, windows, joins, and the options of a run."""

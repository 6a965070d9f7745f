"""A query that runs for hours under faults: its memory, files and latency must stay flat."""

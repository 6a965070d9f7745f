"""CQL: builds queries from SQL text, and prints queries as SQL text."""

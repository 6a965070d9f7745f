"""CQL: queries as text, read into queries and printed from them."""

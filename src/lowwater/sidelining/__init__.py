"""Sidelining: rows of a burst are held, and released later (PROD)."""

"""Sidelining: which rows are held during a burst, and when they are released (PROD)."""

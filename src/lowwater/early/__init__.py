"""Early results: when windows are prodded, and what an early value is worth (PROD)."""

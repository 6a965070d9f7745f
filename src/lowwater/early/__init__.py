"""Early results: when windows are prodded, and how accurate early values are (PROD)."""

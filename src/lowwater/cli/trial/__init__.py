"""`lowwater try`: one query over recordings under several settings, side by side."""

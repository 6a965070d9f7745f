"""Slack chosen at run time from measured lateness and a quality target (QDJ)."""

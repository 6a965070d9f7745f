"""Policies that choose the slack at run time, from late degrees and a quality target (QDJ)."""

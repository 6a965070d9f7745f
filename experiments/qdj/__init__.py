"""Experiments of QDJ."""

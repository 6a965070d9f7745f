"""Experiments of WID."""

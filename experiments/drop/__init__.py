"""Experiments of DROP."""

"""Experiments of PROD."""

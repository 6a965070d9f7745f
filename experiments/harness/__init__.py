"""Harness: how experiments are found, run, recorded and reported."""

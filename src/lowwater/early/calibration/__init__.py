"""Calibration: intervals and accuracies of early values, learned from their finals."""

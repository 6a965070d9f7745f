"""Watermark policies: how the progress of a stream is learned (OOP)."""

"""Watermark policies: the rules that compute the watermark of an input (OOP)."""

"""Streams that experiments run on: generators and recordings."""

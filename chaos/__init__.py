"""Faults on purpose: seeded schedules of kills, failed writes, damage and second runs."""

"""Experiments of OOP."""

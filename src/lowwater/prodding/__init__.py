"""Prodding: what is known about a window before it is complete (PROD)."""

from lowwater.prodding.arrivals import Arrivals, measure

__all__ = ["Arrivals", "measure"]

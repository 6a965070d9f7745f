"""The live page."""

from lowwater.ui.dashboard import Dashboard, dashboard

__all__ = ["Dashboard", "dashboard"]

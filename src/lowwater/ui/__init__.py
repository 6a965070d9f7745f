"""The live page of a run."""

from lowwater.ui.dashboard import Dashboard, dashboard

__all__ = ["Dashboard", "dashboard"]

"""Progress policies: how a stream's low-water mark is learned."""

from lowwater.progress.adapted import Adaptive, Chosen, Pd, Quality
from lowwater.progress.per_source import PerSource
from lowwater.progress.policy import Progress, Tracker, Unsaid
from lowwater.progress.punctuated import Punctuated
from lowwater.progress.slack import Slack

__all__ = [
    "Adaptive",
    "Chosen",
    "Pd",
    "PerSource",
    "Progress",
    "Punctuated",
    "Quality",
    "Slack",
    "Tracker",
    "Unsaid",
]

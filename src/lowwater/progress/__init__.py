"""Progress policies: how a stream's low-water mark is learned."""

from lowwater.progress.per_source import PerSource
from lowwater.progress.policy import Progress, Tracker
from lowwater.progress.punctuated import Punctuated
from lowwater.progress.slack import Slack

__all__ = ["PerSource", "Progress", "Punctuated", "Slack", "Tracker"]

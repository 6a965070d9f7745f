"""Where streams come from: nouns that a host knows how to read."""

from lowwater.sources.blocks import Block, BlockSource
from lowwater.sources.feed import Feed, feed
from lowwater.sources.files import Files, files
from lowwater.sources.replay import Replay, replay

__all__ = ["Block", "BlockSource", "Feed", "Files", "Replay", "feed", "files", "replay"]

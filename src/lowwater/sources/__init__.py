"""Where streams come from: nouns that a host knows how to read."""

from lowwater.sources.blocks import Block, BlockReader, BlockSource
from lowwater.sources.feed import Feed, feed
from lowwater.sources.files import Files, files
from lowwater.sources.inference import infer_schema
from lowwater.sources.piped import Piped
from lowwater.sources.replay import Replay, replay
from lowwater.sources.steps import Select, Step, Where, WithColumns

__all__ = [
    "Block",
    "BlockReader",
    "BlockSource",
    "Feed",
    "Files",
    "Piped",
    "Replay",
    "Select",
    "Step",
    "Where",
    "WithColumns",
    "feed",
    "files",
    "infer_schema",
    "replay",
]

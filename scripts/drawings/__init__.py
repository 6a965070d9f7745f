"""The drawings of the concepts, one for each paper; `python -m scripts.drawings` draws them."""

from scripts.drawings import early, progress, quality, shedding, windows

DRAWINGS = {
    "windows": windows.draw,
    "progress": progress.draw,
    "early": early.draw,
    "shedding": shedding.draw,
    "quality": quality.draw,
}

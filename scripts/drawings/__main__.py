"""Draw the concepts into docs/images."""

from pathlib import Path

from scripts.drawings import DRAWINGS

IMAGES = Path(__file__).parents[2] / "docs" / "images"

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (IMAGES / f"concept-{name}.svg").write_text(draw().svg(), encoding="utf-8")

"""A sheet to draw on, and the SVG it becomes.

A drawing brings its own background, light or dark as the reader's system is, so that it can be read
on any page.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

STYLE = """
  .sheet { fill: #ffffff; stroke: #d0d7de }
  text { fill: #1f2328; font: 14px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif }
  .small { font-size: 12px }
  .muted { fill: #59636e }
  .tone-blue { fill: #0969da } .tone-green { fill: #1a7f37 } .tone-orange { fill: #bc4c00 }
  .on { fill: #ffffff }
  .line { stroke: #59636e; fill: none }
  .line-blue { stroke: #0969da; fill: none } .line-green { stroke: #1a7f37; fill: none }
  .line-orange { stroke: #bc4c00; fill: none }
  .area { fill: #eaeef2 } .area-blue { fill: #cfe3fc } .area-orange { fill: #fbdcc5 }
  @media (prefers-color-scheme: dark) {
    .sheet { fill: #161b22; stroke: #3d444d }
    text { fill: #e6edf3 }
    .muted { fill: #9ba4ae }
    .tone-blue { fill: #58a6ff } .tone-green { fill: #3fb950 } .tone-orange { fill: #f0883e }
    .on { fill: #0d1117 }
    .line { stroke: #9ba4ae }
    .line-blue { stroke: #58a6ff } .line-green { stroke: #3fb950 } .line-orange { stroke: #f0883e }
    .area { fill: #262c36 } .area-blue { fill: #1b3a5c } .area-orange { fill: #55300f }
  }
"""

Point = tuple[float, float]


class Sheet:
    """A sheet of some size; a screen reader reads `title` and `told`."""

    def __init__(self, title: str, told: str, *, height: int, width: int = 720) -> None:
        self.title, self.told = title, told
        self.width, self.height = width, height
        self.marks: list[str] = []

    def text(
        self, at: Point, words: str, kind: str = "", *, anchor: str = "start", turn: int = 0
    ) -> None:
        """Write words; `anchor` is the end of the text, or its middle, that stands at the point."""
        x, y = at
        turned = f' transform="rotate({turn} {x:g} {y:g})"' if turn else ""
        self.marks.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}"{turned}>'
            f"{escape(words)}</text>"
        )

    def line(
        self, points: Iterable[Point], kind: str = "line", *, width: float = 1.5, dash: str = ""
    ) -> None:
        """Draw a line through points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.marks.append(
            f'<polyline points="{path}" class="{kind}" stroke-width="{width:g}"{dashed}/>'
        )

    def arrow(self, start: Point, end: Point, kind: str = "line") -> None:
        """Draw an arrow along an axis."""
        self.line([start, end], kind)
        (x, y), across = end, end[1] == start[1]
        ahead = 7 if (end[0] > start[0] or end[1] > start[1]) else -7
        sides = [(-ahead, -4), (-ahead, 4)] if across else [(-4, -ahead), (4, -ahead)]
        self.line([(x + sides[0][0], y + sides[0][1]), end, (x + sides[1][0], y + sides[1][1])])

    def box(
        self,
        at: Point,
        size: Point,
        kind: str,
        *,
        outline: str = "",
        dash: str = "",
        round: int = 3,
    ) -> None:
        """Draw a box from its upper left corner."""
        (x, y), (width, height) = at, size
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round}"'
        self.marks.append(f'<rect {place} class="{kind}"/>')
        if outline:
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            self.marks.append(f'<rect {place} class="{outline}" stroke-width="1.5"{dashed}/>')

    def dot(self, at: Point, kind: str, *, radius: float = 5, label: str = "") -> None:
        """Draw a dot, with a word in it where there is one."""
        x, y = at
        self.marks.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{kind}"/>')
        if label:
            self.text((x, y + 4), label, "on small", anchor="middle")

    def svg(self) -> str:
        """Return the drawing."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        inside = f'width="{self.width - 1}" height="{self.height - 1}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<desc>{escape(self.told)}</desc>",
                f"<style>{STYLE}</style>",
                f'<rect x="0.5" y="0.5" {inside} rx="8" class="sheet"/>',
                *self.marks,
                "</svg>\n",
            ]
        )

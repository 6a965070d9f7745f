"""Show the examples of docstrings as examples: the site's reader of docstrings wants a heading.

Ours stand at the end of a docstring, without one, as pytest finds them anywhere.
"""

from typing import Any

import griffe

HEADING = "Examples\n--------\n"


def with_heading(text: str) -> str:
    """Return a docstring with a heading before its first example."""
    before, prompt, rest = text.partition(">>> ")
    return f"{before}{HEADING}{prompt}{rest}" if prompt and HEADING not in text else text


class Examples(griffe.Extension):
    """Gives every docstring with an example its heading."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change a docstring before it is read."""
        if obj.docstring is not None:
            obj.docstring.value = with_heading(obj.docstring.value)

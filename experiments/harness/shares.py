"""Formats accuracies: near 100 % the decimals matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def percent(figure: float | np.floating[Any]) -> str:
    """Return a share in percent with two decimals.

    >>> percent(99.9788)
    '99.98'
    """
    return f"{figure:.2f}"


def spread(figures: Sequence[float], unit: str = " %") -> str:
    """Return a mean over streams, and the least and the most of a single one.

    >>> spread([99.0, 99.5]), spread([1.25], " s")
    ('99.25 % (99.00 to 99.50)', '1.25 s')
    """
    told = f"{np.mean(figures):.2f}{unit}"
    if len(figures) > 1:
        told += f" ({min(figures):.2f} to {max(figures):.2f})"
    return told

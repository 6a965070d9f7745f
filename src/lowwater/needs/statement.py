"""The statement of a need: how soon and how right the first answer of a window must be.

A window's clock starts at the moment at which the newest admitted time first reached the end of
the window. So a source that is always five minutes behind does not make its results late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from lowwater.errors import SpecError
from lowwater.ticks import Duration, spoken, ticks

GIVES = ("exact", "right", "windows")
"""What a query can give up if not all of a need can be had, in the usual order."""
SHARE = 0.95
"""The share of first answers that keep `error`, unless the user names another."""
_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b\s*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Need:
    """A need: the promises that a run keeps if it can, and what it gives up if it cannot.

    - `fresh`: The first answer of a window, early or final, comes at most this long after its end.
    - `right`: The mean accuracy of first answers.
    - `error`, `share`: Instead of `right`, the largest relative error of a first answer, and the
      share of first answers that must have at most this error.
    - `exact`: The final comes at most this long after the end; None if it may come at any time.
    - `gives`: What is given up first if the work does not fit: "exact", "right", "windows". What
      is not named is never given up. None stands for all that the query can give up.
    - `weight`: The weight of the query among the queries of one run.
    - `fair_by`: The group key whose values share dropped windows fairly.
    - `memory`: The largest size of state.
    """

    fresh: Duration
    right: float | None = None
    error: float | None = None
    share: float | None = None
    exact: Duration | None = None
    gives: tuple[str, ...] | None = None
    weight: float = 1.0
    fair_by: str | None = None
    memory: str | int | None = None

    def __post_init__(self) -> None:
        self._check_times()
        self._check_rightness()
        _check_gives(self.gives)
        if not _is_number(self.weight) or not self.weight > 0:
            raise SpecError(f"need(weight={self.weight!r}) must be a number above 0, for example 2")
        if self.fair_by is not None and not _is_name(self.fair_by):
            raise SpecError(
                f"need(fair_by={self.fair_by!r}) must name one group key, for example 'tenant'"
            )
        _ = self.memory_bytes

    @property
    def fresh_ticks(self) -> int:
        """`fresh` in ticks."""
        return ticks(self.fresh, name="fresh")

    @property
    def exact_ticks(self) -> int | None:
        """`exact` in ticks; None if a final may come at any time."""
        return None if self.exact is None else ticks(self.exact, name="exact")

    @property
    def completeness(self) -> float:
        """The share of a window's rows with which its final is right enough to be the first answer.

        With `error`, the mean share of missing rows that leaves at most 1 - `share` of the windows
        with a larger share than `error`.
        """
        if self.right is not None:
            return self.right
        assert self.error is not None  # noqa: S101
        return max(0.0, 1.0 - self.error * (1.0 - (self.share or SHARE)))

    @property
    def memory_bytes(self) -> int | None:
        """`memory` in bytes.

        >>> need(fresh="1 minute", right=0.9, memory="4 GB").memory_bytes
        4000000000
        """
        return None if self.memory is None else _size(self.memory)

    def gives_before(self, what: str, possible: Sequence[str] = GIVES) -> tuple[str, ...]:
        """Return what is given up before `what`; everything if `what` is never given up.

        >>> need(fresh="1 minute", right=0.9, gives=("right", "windows")).gives_before("windows")
        ('right',)
        """
        order = tuple(possible) if self.gives is None else self.gives
        return order[: order.index(what)] if what in order else order

    def describe(self) -> str:
        """Return the promises as one sentence.

        >>> need(fresh="30 seconds", right=0.98, exact="10 minutes").describe()
        'first answer within 30 seconds, right to 0.98 in the mean; final within 10 minutes'
        """
        right = (
            f"right to {self.right:g} in the mean"
            if self.right is not None
            else f"{self.share or SHARE:g} of them with an error of at most {self.error:g}"
        )
        final = "" if self.exact_ticks is None else f"; final within {spoken(self.exact_ticks)}"
        return f"first answer within {spoken(self.fresh_ticks)}, {right}{final}"

    def to_parts(self) -> dict[str, Any]:
        """Return the arguments of the need as JSON values."""
        parts: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("fresh", "exact"):
            if parts[name] is not None:
                parts[name] = spoken(ticks(parts[name], name=name))
        if self.gives is not None:
            parts["gives"] = list(self.gives)
        return parts

    def changed(self, parts: Mapping[str, Any]) -> Need:
        """Return the need with the arguments in `parts`; raise SpecError if they do not fit.

        >>> need(fresh="30 seconds", right=0.98).changed({"fresh": "1 minute"}).fresh
        '1 minute'
        """
        names = [f.name for f in fields(self)]
        for name in parts:
            if name not in names:
                raise SpecError(
                    f"need={{{name!r}: ...}}: lw.need has no such argument; it has: "
                    f"{', '.join(names)}"
                )
        given: dict[str, Any] = {
            n: tuple(v) if isinstance(v, list) else v for n, v in parts.items()
        }
        if given.get("right") is not None and self.error is not None:
            given = {"error": None, "share": None, **given}
        if given.get("error") is not None and self.right is not None:
            given = {"right": None, **given}
        return replace(self, **given)

    def _check_times(self) -> None:
        if self.fresh_ticks <= 0:
            raise SpecError(
                f"need(fresh={self.fresh!r}) must be greater than zero: an answer is emitted at "
                f"the end of an epoch, never at the end of the window itself; give the time in "
                f"which you need it, for example fresh='5 seconds'"
            )
        exact = self.exact_ticks
        if exact is not None and exact < self.fresh_ticks:
            raise SpecError(
                f"need(fresh={self.fresh!r}, exact={self.exact!r}): a final is an answer, too, so "
                f"the first answer cannot be allowed to come later; set exact= to fresh= or more"
            )

    def _check_rightness(self) -> None:
        if (self.right is None) == (self.error is None):
            raise SpecError(
                f"need(right={self.right!r}, error={self.error!r}) needs one of the two; write "
                f"right=0.98 for the mean accuracy of first answers, or error=0.02, share=0.95"
            )
        if self.right is not None and not _within(self.right, upto=1.0):
            raise SpecError(
                f"need(right={self.right!r}) must be a number above 0 and at most 1: the mean "
                f"accuracy of first answers, for example 0.98"
            )
        if self.right is not None and self.share is not None:
            raise SpecError(
                f"need(right={self.right!r}, share={self.share!r}): share= goes with error=; "
                f"leave it out, or write error=0.02, share={self.share!r}"
            )
        if self.error is not None and not _within(self.error):
            raise SpecError(f"need(error={self.error!r}) must be a number above 0, such as 0.02")
        if self.share is not None and not _within(self.share, below=1.0):
            raise SpecError(
                f"need(share={self.share!r}) must be a number above 0 and below 1: the share of "
                f"first answers that keep error={self.error!r}, for example 0.95"
            )


def _check_gives(gives: Any) -> None:
    """Raise SpecError unless `gives` is None or different names of `GIVES`."""
    if gives is None:
        return
    if isinstance(gives, str) or not isinstance(gives, Sequence):
        raise SpecError(
            f"need(gives={gives!r}) must be a tuple, in the order in which they are given up; "
            f"write gives=({gives!r},)"
        )
    wrong = [name for name in gives if name not in GIVES]
    if wrong:
        raise SpecError(
            f"need(gives={gives!r}): {wrong[0]!r} is unknown; name some of {', '.join(GIVES)}"
        )
    if len(set(gives)) < len(gives):
        raise SpecError(f"need(gives={gives!r}) names one of them twice; name each once")


def _size(size: Any) -> int:
    """Return a size such as "4 GB" in bytes."""
    whole = isinstance(size, int) and not isinstance(size, bool)
    match = _BYTES.fullmatch(size) if isinstance(size, str) else None
    if not whole and match is None:
        raise SpecError(
            f"need(memory={size!r}) is not a size; write one like '4 GB', or a number of bytes"
        )
    number = size if match is None else _bytes(match)
    if number <= 0:
        raise SpecError(f"need(memory={size!r}) must be greater than zero")
    return int(number)


def _bytes(match: re.Match[str]) -> int:
    power = " kmgt".index(match[2].lower() or " ")
    return int(Fraction(match[1]) * (1024 if match[3] else 1000) ** power)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _within(value: Any, *, upto: float | None = None, below: float | None = None) -> bool:
    if not _is_number(value) or not value > 0:
        return False
    return (upto is None or value <= upto) and (below is None or value < below)


def need(
    *,
    fresh: Duration,
    right: float | None = None,
    error: float | None = None,
    share: float | None = None,
    exact: Duration | None = None,
    gives: Sequence[str] | None = None,
    weight: float = 1.0,
    fair_by: str | None = None,
    memory: str | int | None = None,
) -> Need:
    """Return a need: one statement from which a run chooses waits, early results and drops.

    `fresh` and `exact` count from the moment at which the newest time reached a window's end.

    >>> need(fresh="30 seconds", right=0.98, exact="10 minutes").gives is None
    True
    >>> need(fresh="30 seconds", error=0.02, share=0.9, gives=("exact",)).describe()
    'first answer within 30 seconds, 0.9 of them with an error of at most 0.02'
    """
    listed = isinstance(gives, Sequence) and not isinstance(gives, str)
    return Need(
        fresh=fresh,
        right=right,
        error=error,
        share=share,
        exact=exact,
        gives=tuple(gives) if listed else gives,  # type: ignore[arg-type]
        weight=weight,
        fair_by=fair_by,
        memory=memory,
    )

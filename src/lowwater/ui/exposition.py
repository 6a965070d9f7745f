"""The figures of a run as Prometheus reads them: text, version 0.0.4.

Each name begins with `lowwater_`, a counter's ends with `_total`; its help and its type stand
before its samples, which stand together.
"""

from __future__ import annotations

from collections.abc import Iterable

from lowwater.query.figures import Figure

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(figures: Iterable[Figure]) -> str:
    r"""Return the text.

    >>> print(exposition([Figure("rows", "counter", "Rows.", 3, {"outcome": "late"})]))
    # HELP lowwater_rows_total Rows.
    # TYPE lowwater_rows_total counter
    lowwater_rows_total{outcome="late"} 3
    <BLANKLINE>
    """
    by_name: dict[str, list[Figure]] = {}
    for one in figures:
        by_name.setdefault(_name(one), []).append(one)
    lines = []
    for name, several in by_name.items():
        lines.append(f"# HELP {name} {several[0].says.translate(_ESCAPED)}")
        lines.append(f"# TYPE {name} {several[0].kind}")
        lines += [f"{name}{_labels(one)} {_number(one.value)}" for one in several]
    return "".join(f"{line}\n" for line in lines)


def _name(figure: Figure) -> str:
    return f"lowwater_{figure.name}{'_total' if figure.kind == 'counter' else ''}"


def _labels(figure: Figure) -> str:
    told = ",".join(f'{n}="{v.translate(_ESCAPED)}"' for n, v in figure.labels.items())
    return f"{{{told}}}" if told else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))

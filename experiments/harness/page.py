"""One page for all results: no other file, script or address is needed to read it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from experiments.harness.contract import Check, format_value
from experiments.harness.record import Record
from lowwater.errors import LowwaterError

PAPERS = {
    "DROP": "Tatbul and Zdonik, Window-Aware Load Shedding for Aggregation Queries over Data "
    "Streams (2006)",
    "OOP": "Li et al., Out-of-Order Processing: A New Architecture for High-Performance Stream "
    "Systems (2008)",
    "PROD": "Bhat, Low-latency Estimates for Window-Aggregate Queries over Data Streams (2011)",
    "QDJ": "Sun, Quality-Driven Disorder Handling for Sliding-Window Joins (2015)",
    "WID": "Li et al., Semantics and Evaluation Techniques for Window Aggregates in Data Streams "
    "(2005)",
}
"""What the short names of papers stand for."""
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; margin-top: 3rem; }
h2 small { color: #777; font-weight: normal; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .93rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e4e4e4;
         vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th { font-weight: 600; font-size: .86rem; color: #555; }
img { width: 100%; min-width: 40rem; margin: .5rem 0; } .faint { color: #666; }
.holds { color: #00734d; font-weight: 600; } .fails { color: #b3001b; font-weight: 600; }
.scroll { overflow-x: auto; }
"""


def page(records: Sequence[Record], folder: Path) -> str:
    """Return the page; pictures are read from `folder`."""
    sections = "\n".join(_section(record, folder) for record in records)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lowwater: the experiments of the papers</title>
<style>{_STYLE}</style>
<h1>The experiments of the papers, run again</h1>
<p>Shapes must hold; absolute times are those of the machine that ran them.{_quick(records)}</p>
{_summary(records)}
{_papers(records)}
{sections}
</html>
"""


def _quick(records: Sequence[Record]) -> str:
    """Return the note that names the experiments of quick runs."""
    quick = [escape(r.id) for r in records if r.quick]
    if not quick:
        return ""
    return f" Quick runs, with less data and fewer settings: {', '.join(quick)}."


def _papers(records: Sequence[Record]) -> str:
    """Return the list of papers, by their short names."""
    named = dict.fromkeys(r.paper.partition(",")[0] for r in records)
    lines = [f"{escape(n)}: {escape(PAPERS[n])}." for n in named if n in PAPERS]
    return f'<p class="faint">{"<br>".join(lines)}</p>' if lines else ""


def _summary(records: Sequence[Record]) -> str:
    lines = [
        [
            f'<a href="#{escape(r.id)}">{escape(r.id)}</a>',
            escape(r.title),
            escape(r.paper),
            f"{sum(c.judged and c.holds for c in r.checks)} of {sum(c.judged for c in r.checks)}",
            _word(holds=r.holds),
        ]
        for r in records
    ]
    return _table(("", "experiment", "paper", "shapes that hold", "verdict"), lines, "")


def _section(record: Record, folder: Path) -> str:
    title, paper = escape(record.title), escape(record.paper)
    return f"""
<section id="{escape(record.id)}">
<h2>{escape(record.id)}&ensp;{title} <small>{paper}</small></h2>
<p><b>The paper:</b> {escape(record.reports)}</p>
{_here(record)}
<div class="scroll"><img alt="{title}" src="data:image/png;base64,{_picture(record, folder)}"></div>
{_checks(record.checks)}
{_compared(record)}
{_measured(record)}
<p class="faint">{escape(_settings(record))}</p>
</section>"""


def _here(record: Record) -> str:
    return f"<p><b>Here:</b> {escape(record.here)}</p>" if record.here else ""


def _picture(record: Record, folder: Path) -> str:
    path = folder / record.picture
    if not path.exists():
        raise LowwaterError(
            f"{path} is missing; run it again: python -m experiments run {record.id} --out {folder}"
        )
    return base64.b64encode(path.read_bytes()).decode()


def _checks(checks: Sequence[Check]) -> str:
    lines = [[_verdict(c), escape(c.name), escape(c.figures)] for c in checks]
    return _table(("", "shape", "figures"), lines, "Shapes that must hold")


def _compared(record: Record) -> str:
    lines = [[escape(c.what), escape(c.paper), escape(c.ours)] for c in record.compared]
    return _table(("", "paper", "ours"), lines, "The paper's figures and ours")


def _measured(record: Record) -> str:
    numbers = {
        i
        for i, name in enumerate(record.columns)
        if not any(isinstance(row[name], str) for row in record.rows)
    }
    lines = [[escape(format_value(value)) for value in row.values()] for row in record.rows]
    return _table([escape(c) for c in record.columns], lines, "Measured", numbers)


def _settings(record: Record) -> str:
    known = {
        **record.settings,
        "run": "quick" if record.quick else "full",
        "time": f"{record.seconds:.1f} s",
    }
    return " · ".join(f"{name}: {format_value(value)}" for name, value in known.items())


def _verdict(check: Check) -> str:
    return _word(holds=check.holds) if check.judged else "printed"


def _word(*, holds: bool) -> str:
    return '<span class="holds">holds</span>' if holds else '<span class="fails">fails</span>'


def _table(
    head: Sequence[str], lines: Iterable[Sequence[str]], caption: str, numbers: Iterable[int] = ()
) -> str:
    right = set(numbers)

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="number"' if i in right else "" for i in range(len(cells))]
        joined = "".join(f"<{tag}{k}>{c}</{tag}>" for k, c in zip(kinds, cells, strict=True))
        return f"<tr>{joined}</tr>"

    rows = "\n".join([line(head, "th"), *(line(cells, "td") for cells in lines)])
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{named}\n{rows}\n</table></div>'

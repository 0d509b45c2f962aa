"""Draws the charts of benchmarks.md from its own tables.

`make docs` runs it; a test fails when a chart is not what it would draw. A table whose numbers are drawn comes after a
line such as `<!-- chart: search-sgd.svg, hit@1 in per cent, 0 to 100 -->`: the chart's file, what is drawn, from where
to where. Its first column names the groups, each other column is a series; a cell without a number has no bar.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
PAGE = DOCS / "benchmarks.md"
_COLOURS = ("#9db2e8", "#2f5bd7", "#f0b27a", "#c8691c")
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 250, 560, 16, 18, 64


class Chart(NamedTuple):
    """One table with numbers."""

    file: str
    what: str
    least: float
    most: float
    series: list[str]
    groups: dict[str, list[float | None]]


def charts(page: str) -> list[Chart]:
    """The charts of a page."""
    pattern = r"<!-- chart: (\S+\.svg), (.+), ([\d.]+) to ([\d.]+) -->\n((?:\|.*\n)+)"
    return [
        Chart(file, what, float(least), float(most), *_table(table))
        for file, what, least, most, table in re.findall(pattern, page)
    ]


def _table(text: str) -> tuple[list[str], dict[str, list[float | None]]]:
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return head[1:], {row[0]: [_number(cell) for cell in row[1:]] for row in rows}


def _number(cell: str) -> float | None:
    found = re.match(r"\**([\d,]+(?:\.\d+)?)", cell)
    return float(found[1].replace(",", "")) if found else None


def drawn(chart: Chart) -> str:
    """The chart as SVG: a bar for each number, in groups."""
    height = _TOP + sum(_BAR * len(numbers) + _GAP for numbers in chart.groups.values()) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 80} {height}" role="img" '
        f'font-family="ui-sans-serif, system-ui, sans-serif" font-size="13" aria-label="{escape(chart.what)}">',
        f'<rect width="100%" height="100%" fill="#fbfcff"/><text x="16" y="24" font-size="15" font-weight="600" '
        f'fill="#1f2a44">{escape(chart.what)}</text>',
        *_legend(chart.series),
        *_bars(chart),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend(series: Sequence[str]) -> Iterator[str]:
    left = 16
    for number, name in enumerate(series):
        yield f'<rect x="{left}" y="36" width="12" height="12" rx="2" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
        yield f'<text x="{left + 18}" y="47" fill="#4a5573">{escape(name)}</text>'
        left += 34 + 8 * len(name)


def _bars(chart: Chart) -> Iterator[str]:
    top = _TOP
    for group, numbers in chart.groups.items():
        middle = top + _BAR * len(numbers) / 2 + 4
        yield f'<text x="{_LEFT - 12}" y="{middle:.0f}" text-anchor="end" fill="#1f2a44">{escape(group)}</text>'
        for at, number in enumerate(numbers):
            if number is not None:
                width = _WIDTH * (number - chart.least) / (chart.most - chart.least)
                y = top + at * _BAR
                colour = _COLOURS[at % len(_COLOURS)]
                yield f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 3}" rx="2" fill="{colour}"/>'
                yield f'<text x="{_LEFT + width + 6:.1f}" y="{y + 11}" font-size="12" fill="#4a5573">{number:g}</text>'
        top += _BAR * len(numbers) + _GAP


if __name__ == "__main__":
    for chart in charts(PAGE.read_text("utf-8")):
        (DOCS / chart.file).write_text(drawn(chart), "utf-8")

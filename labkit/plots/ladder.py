"""The fix ladder as a picture: a row for each fix that is added, a column for each fault, a verdict in each cell."""

from __future__ import annotations

import html

import matplotlib

from labkit import Trace, Verdict
from labkit.incidents import INCIDENTS
from labkit.incidents.ladder import Incident, Ladder
from labkit.plots.canvas import area, canvas, write
from labkit.plots.figure import Picture
from labkit.plots.style import CHARACTER, QUIET, SAFE, UNSURE, WORST

SHADES = {"holds": SAFE, "violated": WORST, "undetermined": UNSURE}
WORDS = {
    "holds": "holds within the bounds of its column",
    "violated": "violated, by a schedule of that length",
    "undetermined": "undetermined: the search was cut short",
}
HEIGHT, ROW, MARGIN = 0.34, 0.2, 0.2  # inches


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def fix_ladder(ladder: Ladder) -> Picture:
    """Draw which fixes help against which faults.

    Parameters
    ----------
    ladder: the verdicts, as `Incident.climb` gives them. In a notebook, each violated cell of the table below the
        picture opens its shortest counterexample.
    """
    if not isinstance(ladder, Ladder):
        raise TypeError(f"a fix ladder shows what `climb()` of an incident gives, not {type(ladder).__name__}")
    incident = ladder.incident
    titles = ["no fix", *(f"+ {fix.name}" for fix in incident.fixes)]
    faults = [fault.name for fault in incident.faults]
    left = MARGIN + CHARACTER * (max(map(len, titles)) + 2)
    rooms = [CHARACTER * (max(len(name), 6) + 2) for name in faults]
    lines = _bounds(ladder)
    there = [outcome for outcome in WORDS if any(verdict.outcome == outcome for verdict in ladder.cells.values())]
    top = MARGIN + ROW * 2
    under = top + HEIGHT * len(titles) + 0.25
    longest = max(map(len, [*lines, *WORDS.values()])) + 5
    width = max(left + sum(rooms), MARGIN + CHARACTER * longest) + MARGIN
    figure, axes = canvas(width, under + ROW * (len(lines) + 1) + HEIGHT * len(there))
    write(axes, MARGIN, MARGIN, f"{incident.name}: each row adds a fix to those above it.", color=QUIET)
    for row, title in enumerate(titles):
        y = top + HEIGHT * row
        write(axes, MARGIN, y + HEIGHT / 2, title, fontweight="bold")
        for column, fault in enumerate(faults):
            x, verdict = left + sum(rooms[:column]), ladder.cell(row, fault)
            shade = SHADES[verdict.outcome]
            if not row:
                write(axes, x + rooms[column] / 2, top - ROW / 2, fault, ha="center", fontweight="bold")
            area(axes, x, y, rooms[column], HEIGHT, shade)
            style = {"ha": "center", "color": shade.ink, "fontweight": "bold"}
            write(axes, x + rooms[column] / 2, y + HEIGHT / 2, mark(verdict), **style)
    for place, outcome in enumerate(there):
        y = under + HEIGHT * place
        area(axes, MARGIN, y, CHARACTER * 3, HEIGHT * 0.7, SHADES[outcome])
        sample = {"ha": "center", "color": SHADES[outcome].ink, "fontweight": "bold"}
        write(axes, MARGIN + CHARACTER * 1.5, y + HEIGHT * 0.35, SHADES[outcome].symbol, **sample)
        write(axes, MARGIN + CHARACTER * 4.5, y + HEIGHT * 0.35, WORDS[outcome])
    for place, line in enumerate(lines):
        write(axes, MARGIN, under + HEIGHT * len(there) + ROW * (place + 0.5), line, color=QUIET)
    return Picture(figure, _alt(ladder, titles, faults), "\n".join([repr(ladder), "", *lines]), _table(ladder, titles))


def mark(verdict: Verdict) -> str:
    """A verdict as a symbol, with the length of the shortest violation."""
    lengths = [trace.length for trace in verdict.violations.values()]
    return SHADES[verdict.outcome].symbol + (f" {min(lengths)}" if lengths else "")


def _bounds(ladder: Ladder) -> list[str]:
    """What each column was searched within, a line each: as `explore` and the incident's world are told."""
    lines = []
    for fault in ladder.incident.faults:
        budgets, world = (
            ", ".join(f"{key}={value}" for key, value in told.items()) for told in (fault.budgets, fault.world)
        )
        lines.append(f"{fault.name}: {budgets or 'nothing goes wrong'}" + (f"; its world: {world}" if world else ""))
    return lines


def _alt(ladder: Ladder, titles: list[str], faults: list[str]) -> str:
    rows = []
    for row, title in enumerate(titles):
        cells = [(fault, ladder.cell(row, fault)) for fault in faults]
        broken = [f"{fault} ({mark(verdict)[2:]})" for fault, verdict in cells if verdict.outcome == "violated"]
        unsure = [fault for fault, verdict in cells if verdict.outcome == "undetermined"]
        told = f"violated by {', '.join(broken)}" if broken else "violated by nothing"
        rows.append(f"{title}: {told}" + (f", undetermined for {', '.join(unsure)}" if unsure else "") + ".")
    return f"Fix ladder of {ladder.incident.name}: a verdict for each fix and fault. " + " ".join(rows)


def _table(ladder: Ladder, titles: list[str]) -> str:
    """The ladder as a table whose violated cells open their counterexamples."""
    incident = ladder.incident
    heads = "".join(f'<th scope="col">{html.escape(fault.name)}</th>' for fault in incident.faults)
    says = ["", *(fix.says for fix in incident.fixes)]
    rows = []
    for row, (title, words) in enumerate(zip(titles, says, strict=True)):
        cells = "".join(_cell(ladder, row, fault.name) for fault in incident.faults)
        note = f"<br><small>{html.escape(words)}</small>" if words else ""
        rows.append(f'<tr><th scope="row" style="text-align:left">{html.escape(title)}{note}</th>{cells}</tr>')
    table = f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<details><summary>The same as a table, with every counterexample</summary>{table}</details>"


def _cell(ladder: Ladder, row: int, fault: str) -> str:
    verdict = ladder.cell(row, fault)
    told = f"{mark(verdict)} {verdict.outcome}"
    if not verdict.violations:
        return f"<td>{html.escape(told)}</td>"
    name, trace = min(verdict.violations.items(), key=lambda pair: pair[1].length)
    shown = html.escape(f"{_again(ladder.incident, ladder.rungs[row], fault, trace)}\n\n{trace.table()}")
    where = "text-align:left;vertical-align:top"
    return (
        f'<td style="{where}"><details><summary>{html.escape(told)}: {html.escape(name)}</summary>'
        f"<pre>{shown}</pre></details></td>"
    )


def _again(incident: Incident, fixes: tuple[str, ...], fault: str, trace: Trace) -> str:
    """What to write to replay a cell's counterexample; an incident of one's own is called `incident`."""
    known = next((f"INCIDENTS[{name!r}]" for name, each in INCIDENTS.items() if each is incident), "incident")
    return f'replay({known}.scenario({fixes!r}, {fault!r}), "{trace.schedule}")'

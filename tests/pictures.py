"""What every picture is measured by: labels that meet no other, within the figure, readable in grey."""

import html
import itertools
import re
import warnings

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb

SMALLEST = 7  # points


def texts(picture):
    """The labels of a picture, all axes together."""
    return [text.get_text() for axes in picture.figure.axes for text in axes.texts]


def labels(picture):
    """Each text that is drawn, and the room that it takes in pixels."""
    renderer = FigureCanvasAgg(picture.figure).get_renderer()
    picture.figure.draw_without_rendering()  # sets the labels of ticks
    found = []
    for axes in picture.figure.axes:
        ticks = [tick for axis in (axes.xaxis, axes.yaxis) if axes.axison for tick in axis.get_ticklabels(which="both")]
        legend = axes.get_legend()
        others = [axes.title, axes.xaxis.label, axes.yaxis.label] if axes.axison else []
        found += [*axes.texts, *ticks, *others, *(legend.get_texts() if legend else [])]
    return [(text, text.get_window_extent(renderer)) for text in found if text.get_text() and text.get_visible()]


def assert_readable(picture):
    """No label meets another or leaves the figure, none is tiny or lacks a glyph, and there is text for each reader."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is one, which `png` leaves unsaid
        FigureCanvasAgg(picture.figure)
        picture.figure.draw_without_rendering()
        picture.png()
    width, height = picture.figure.get_size_inches() * picture.figure.dpi
    found = labels(picture)
    assert found
    for text, box in found:
        assert text.get_fontsize() >= SMALLEST, text
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= width + 1, text
        assert box.y1 <= height + 1, text
    boxes = sorted(((text, box.shrunk(0.98, 0.8)) for text, box in found), key=lambda pair: pair[1].x0)
    for place, (text, box) in enumerate(boxes):
        for other, other_box in itertools.takewhile(lambda pair, end=box.x1: pair[1].x0 <= end, boxes[place + 1 :]):
            assert not box.overlaps(other_box), (text, other)
    assert picture.alt.strip().endswith(".")
    assert picture.text.strip()
    assert f'alt="{html.escape(picture.alt)}"' in picture.html
    assert "\n" not in picture.alt


def luminance(color):
    """The relative luminance of WCAG 2.2."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(color, ground):
    """The contrast of WCAG 2.2, from 1 to 21; text needs 4.5."""
    light, dark = sorted((luminance(color), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def visible_words(twin):
    """What a reader of the HTML twin reads."""
    return html.unescape(re.sub("<[^>]*>", " ", twin))


def cells(picture):
    """The face and the hatch of each cell of a grid, by column and row from the lower left corner."""
    (axes,) = picture.figure.axes
    filled = [patch for patch in axes.patches if patch.get_fill() and patch.get_width() > 0.21]  # samples are smaller
    columns = sorted({round(patch.get_x(), 6) for patch in filled})
    rows = sorted({round(patch.get_y(), 6) for patch in filled}, reverse=True)  # y grows downwards
    place = {}
    for patch in filled:
        at = columns.index(round(patch.get_x(), 6)), rows.index(round(patch.get_y(), 6))
        place[at] = to_hex(patch.get_facecolor()).upper(), patch.get_hatch() or ""
    return place


def grid_of_text(picture):
    """The cells of a grid as the text twin has them, by column and row."""
    lines = picture.text.splitlines()
    rows = [line for line in lines if re.match(r" *\d+ \| ", line)]
    starts = [match.start() for match in re.finditer(r"\d+", lines[len(rows)])]  # the line that numbers the columns
    return {
        (column, int(row.split("|")[0])): row[start : start + starts[-1] - starts[-2]].strip()
        for row in rows
        for column, start in enumerate(starts)
    }


def markers(picture):
    """The markers of every line and symbol, each with where it stands."""
    return [
        (line.get_marker(), float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for axes in picture.figure.axes
        for line in axes.lines
        if line.get_marker() not in ("None", None, "")
    ]

"""Charts as SVG that need no script: lines, dots with intervals, a legend and a table.

The colours are classes of the style sheet, `c0` to `c7`, and so are the dashes, `d0` to `d3`.
"""

from __future__ import annotations

import html
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .tables import make_table
from .values import format_number

WIDTH, HEIGHT, TOP, BOTTOM, RIGHT = 400, 230, 12, 34, 16  # pixels
_DIGIT = 6.4  # pixels of a digit on an axis
_NUM_TICKS = 5
_FEW = 160  # points of a chart whose lines have dots, too
_MIN_COUNT = 5  # examples of a dot that is not faint
Point = Tuple[float, float, Optional[float], Optional[float]]  # x, y, the ends of y's interval


class Line(NamedTuple):
    """What is drawn of one name."""

    name: str
    points: Sequence[Point]  # by ascending x; y is NaN where a value was not finite
    look: Tuple[int, int] = (0, 0)  # the number of the colour and that of the dash
    draw: str = "line"  # or "dots"
    sizes: Sequence[float] = ()  # of dots: the number of examples of each, their areas

    @property
    def css(self) -> str:
        return f"c{self.look[0] % 8} d{self.look[1] % 4}"


class Axis(NamedTuple):
    """A scale from values to pixels, with the values of its ticks."""

    low: float
    high: float
    start: float
    end: float
    ticks: List[float]
    is_log: bool = False

    def place(self, value: float) -> float:
        ends = (self.low, self.high, value)
        low, high, at = (math.log10(max(v, 1e-300)) for v in ends) if self.is_log else ends
        return self.start + (self.end - self.start) * (at - low) / (high - low)

    def text(self, value: float) -> str:
        """A tick with as many decimals as the distance of two ticks needs."""
        step = abs(self.ticks[1] - self.ticks[0]) if len(self.ticks) > 1 else 1.0
        if self.is_log or not 1e-4 <= step <= 1e6:
            return f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e")
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        decimals += abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6
        return f"{value:,.{decimals}f}"


def make_axis(
    values: Sequence[float],
    start: float,
    end: float,
    is_round: bool = True,
    is_whole: bool = False,
    is_log: bool = False,
) -> Axis:
    """An axis for values in pixels from `start` to `end` with ticks at round values: one that ends
    with a tick, one whose ticks are whole numbers, or one with ticks at powers of ten.
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if is_log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        powers = range(first, last + 1, math.ceil((last - first) / _NUM_TICKS) or 1)
        return Axis(10.0**first, 10.0**last, start, end, [10.0**power for power in powers], True)
    if low == high:
        space = 1.0 if is_whole else abs(low) / 2 or 1.0
        low, high = low - space, high + space
    power = 10.0 ** math.floor(math.log10((high - low) / _NUM_TICKS))
    step = next(n * power for n in (1, 2, 2.5, 5, 10) if n * power * _NUM_TICKS >= high - low)
    step = max(1.0, step if step != 2.5 else 5.0) if is_whole else step
    if is_round:
        low, high = math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return Axis(low, high, start, end, [place * step for place in places])


def make_chart(
    title: str,
    lines: Sequence[Line],
    x: str = "step",
    y: str = "",
    is_diagonal: bool = False,
    mark: Optional[Tuple[float, str]] = None,
) -> Dict[str, Any]:
    """A chart for the templates, with the names of its axes; steps are whole. It may have the line
    x = y, and marks an x with its text if that is within it.
    """
    xs = [point[0] for line in lines for point in line.points]
    ys = [v for line in lines for p in line.points for v in p[1:] if v is not None and v == v]
    xs, ys = (xs + ys, ys + xs) if is_diagonal else (xs, ys)
    median = sorted(ys)[len(ys) // 2] if ys else 0.0
    is_log = not is_diagonal and min(ys, default=0.0) > 0 and max(ys) > 30 * median
    vertical = make_axis(ys, HEIGHT - BOTTOM, TOP, is_log=is_log)
    left = 14 + _DIGIT * max(len(vertical.text(tick)) for tick in vertical.ticks)
    horizontal = make_axis(xs, left, WIDTH - RIGHT, is_round=False, is_whole=x == "step")
    parts = _draw_axes(horizontal, vertical, x)
    mark = mark if mark and horizontal.low <= mark[0] <= horizontal.high else None
    special = [(mark[0], y) for y in (vertical.low, vertical.high)] if mark else []
    special += [(end, end) for end in (horizontal.low, horizontal.high)] if is_diagonal else []
    parts.append(f'<path class="mark" d="{_path(special, horizontal, vertical)}"/>')
    is_short = len(xs) <= _FEW
    for line in lines:
        path = _path([point[:2] for point in line.points], horizontal, vertical)
        parts += [f'<path class="line {line.css}" d="{path}"/>'] if line.draw == "line" else []
        parts += _draw_dots(line, horizontal, vertical) if is_short or line.draw == "dots" else []
    # The rows of the table: of long lines, as many as a reader can use.
    columns = [{p[0]: p[1] for p in line.points[:: len(line.points) // 60 + 1]} for line in lines]
    places = sorted({place for column in columns for place in column})
    texts = [[f"{each[x]:.7g}" if x in each else "" for each in columns] for x in places]
    rows = [[format_number(place), *text] for place, text in zip(places, texts)]
    values = [[format_number(p[1]) for p in line.points if p[1] == p[1]] for line in lines]
    ends = [f"{line.name} from {v[0]} to {v[-1]}" for line, v in zip(lines, values) if v]
    label = html.escape(f"{title}: {'; '.join(ends)}")
    return {
        "title": title,
        "svg": f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg>',
        "lines": lines,
        "mark": mark[1] if mark else "",
        "note": ", ".join(word for word in (y, "logarithmic scale" if is_log else "") if word),
        "table": make_table(title, [x, *(line.name for line in lines)], rows),
    }


def _draw_axes(horizontal: Axis, vertical: Axis, name: str) -> List[str]:
    parts = []

    def write(x: float, y: float, anchor: str, text: str) -> None:
        place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
        parts.append(f"<text {place}>{html.escape(text)}</text>")

    for tick in vertical.ticks:
        y = vertical.place(tick)
        parts.append(f'<path class="grid" d="M{horizontal.start:.0f} {y:.1f}H{WIDTH - RIGHT}"/>')
        write(horizontal.start - 6, y + 4, "end", vertical.text(tick))
    for tick in horizontal.ticks:
        x, text = horizontal.place(tick), horizontal.text(tick)
        is_cut = x + _DIGIT * len(text) / 2 > WIDTH
        x, anchor = (WIDTH, "end") if is_cut else (x, "middle")
        write(x, HEIGHT - BOTTOM + 15, anchor, text)
    write((horizontal.start + horizontal.end) / 2, HEIGHT - 4, "middle", name)
    return parts


def _path(points: Sequence[Tuple[float, float]], horizontal: Axis, vertical: Axis) -> str:
    """A path through points with a gap at each that is not finite."""
    text, is_gap = "", True
    for x, y in points:
        if y == y:
            place = f"{horizontal.place(x):.1f} {vertical.place(y):.1f}"
            text += f"M{place}h0" if is_gap else f"L{place}"
        is_gap = y != y
    return text


def _draw_dots(line: Line, horizontal: Axis, vertical: Axis) -> List[str]:
    """A dot for each point, with a whisker for its interval."""
    parts, largest = [], max(line.sizes, default=1.0) or 1.0
    for number, (x, y, low, high) in enumerate(line.points):
        size = line.sizes[number] if number < len(line.sizes) else None
        radius = 2.4 if size is None else 2 + 6 * math.sqrt(size / largest)
        css = line.css + (" faint" if size is not None and size < _MIN_COUNT else "")
        left = horizontal.place(x)
        if low is not None and high is not None:
            path = f"M{left:.1f} {vertical.place(low):.1f}V{vertical.place(high):.1f}"
            parts.append(f'<path class="whisker {css}" d="{path}"/>')
        if y == y:
            place = f'cx="{left:.1f}" cy="{vertical.place(y):.1f}" r="{radius:.1f}"'
            text = html.escape(f"{line.name}: {format_number(y)} at {format_number(x)}")
            parts.append(f'<circle class="dot {css}" {place}><title>{text}</title></circle>')
    return parts

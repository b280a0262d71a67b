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
_TINY = 1e-300  # as good as 0
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


class Axis:
    """A scale from values to the pixels from `start` to `end`, with ticks at round values. It ends
    with ticks, or where the values do; ticks may be whole numbers, or powers of ten.
    """

    def __init__(
        self,
        values: Sequence[float],
        start: float,
        end: float,
        is_round: bool = True,
        is_whole: bool = False,
        is_log: bool = False,
    ):
        self.start, self._end, self._is_log = start, end, is_log
        low, high = map(self._scale, (min(values, default=0.0), max(values, default=1.0)))
        if high - low <= 1e-12 * max(abs(low), abs(high)):  # ticks would have equal places
            space = 1.0 if is_whole or is_log else abs(low) / 2 or 1.0
            low, high = low - space, high + space
        power = 10.0 ** math.floor(math.log10((high - low) / _NUM_TICKS))
        step = next(n * power for n in (1, 2, 2.5, 5, 10) if n * power * _NUM_TICKS >= high - low)
        if is_whole or is_log:
            step = max(1.0, step if step != 2.5 else 5.0)
        if is_round:
            low, high = math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step
        self._low, self._high = low, high
        places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        limit = 308 if is_log else math.inf  # a float ends at 1e308
        ticks = [n * step for n in places if abs(n * step) < limit]
        texts = [f"{10.0**tick if is_log else tick:,.7g}" for tick in ticks]
        self.ticks = [(self.place(tick, True), text) for tick, text in zip(ticks, texts)]

    def _scale(self, value: float) -> float:
        # Smaller numbers have no digits left for what is between them.
        return math.log10(value) if self._is_log else value * (abs(value) > _TINY)

    def place(self, value: float, is_scaled: bool = False) -> float:
        """The pixel of a value, or of what `_scale` made of it."""
        scaled = value if is_scaled else self._scale(value)
        share = (scaled - self._low) / (self._high - self._low)
        return self.start + (self._end - self.start) * share


def make_chart(
    title: str,
    lines: Sequence[Line],
    x: str = "step",
    y: str = "",
    is_diagonal: bool = False,
    mark: Optional[Tuple[float, str]] = None,
) -> Dict[str, Any]:
    """A chart for the templates, with the names of its axes; steps are whole. It may have the line
    x = y, and marks an x with its text if that is among those of the lines.
    """
    xs = [point[0] for line in lines for point in line.points]
    ys = [v for line in lines for p in line.points for v in p[1:] if v is not None and v == v]
    xs, ys = (xs + ys, ys + xs) if is_diagonal else (xs, ys)
    is_log = not is_diagonal and min(ys, default=0) > 0 and max(ys) > 30 * sorted(ys)[len(ys) // 2]
    vertical = Axis(ys, HEIGHT - BOTTOM, TOP, is_log=is_log)
    left = 14 + _DIGIT * max(len(text) for _, text in vertical.ticks)
    horizontal = Axis(xs, left, WIDTH - RIGHT, is_round=False, is_whole=x == "step")
    parts = _draw_axes(horizontal, vertical, x)
    mark = mark if mark and xs and min(xs) <= mark[0] <= max(xs) else None
    ends = (min(xs), max(xs)) if is_diagonal else ()
    path = _path([(end, end) for end in ends], horizontal, vertical)
    path += f"M{horizontal.place(mark[0]):.1f} {TOP}V{HEIGHT - BOTTOM}" if mark else ""
    parts.append(f'<path class="mark" d="{path}"/>')
    for line in lines:
        if line.draw == "line":
            path = _path([point[:2] for point in line.points], horizontal, vertical)
            parts.append(f'<path class="line {line.css}" d="{path}"/>')
        if line.draw == "dots" or len(xs) <= _FEW:
            parts += _draw_dots(line, horizontal, vertical)
    values = [[format_number(p[1]) for p in line.points if p[1] == p[1]] for line in lines]
    texts = [f"{line.name} from {v[0]} to {v[-1]}" for line, v in zip(lines, values) if v]
    label = html.escape(f"{title}: {'; '.join(texts)}")
    # The rows of the table: of long lines, as many as a reader can use.
    columns = [{p[0]: p[1] for p in line.points[:: len(line.points) // 60 + 1]} for line in lines]
    rows = [
        [format_number(place), *(f"{each[place]:.7g}" if place in each else "" for each in columns)]
        for place in sorted(set().union(*columns))
    ]
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
    left, bottom = horizontal.start, HEIGHT - BOTTOM
    texts = [(left - 6, place + 4, "end", text) for place, text in vertical.ticks]
    for place, text in horizontal.ticks:
        inside = min(place, WIDTH - _DIGIT * len(text) / 2)
        texts.append((inside, bottom + 15, "middle", text))
    texts.append(((left + WIDTH - RIGHT) / 2, HEIGHT - 4, "middle", name))
    grid = "".join(f"M{left:.0f} {place:.1f}H{WIDTH - RIGHT}" for place, _ in vertical.ticks)
    return [f'<path class="grid" d="{grid}"/>'] + [
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html.escape(text)}</text>'
        for x, y, anchor, text in texts
    ]


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
    sizes: Sequence[Any] = line.sizes or [None] * len(line.points)
    for (x, y, low, high), size in zip(line.points, sizes):
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

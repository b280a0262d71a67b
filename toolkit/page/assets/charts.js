// Line charts in SVG: cursor by pointer, touch and keys, zoom, smoothing, a logarithmic axis, a
// legend that hides lines, marks of events, and a table of the points.
//
// A chart is {title, x, y, lines, events, diagonal, note, marks}. A line is {name, colour, dash,
// points: [[x, y, low, high], ...], area}: low and high are an interval or, with area, a band.

const COLOURS = 8;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2"];
const MARGIN = { left: 68, right: 14, top: 16, bottom: 32 };
const HEIGHT = 240;
const LARGEST = 4e307;  // on an axis, so that no sum or difference overflows
const KEYS = "Left and right keys move the cursor, plus and minus zoom, shift with left and right"
  + " moves the section, 0 shows all.";
const EVENT_SIGNS = { resume: "↻", refused: "×", damaged: "!", diverged: "∞", branch: "⑂",
  best: "★", gap: "∅", note: "•" };

// What the charts of one section share: the visible steps, smoothing and the vertical axis.
class View {
  constructor() {
    this.range = null;
    this.smoothing = 0;
    this.logarithmic = false;
    this.charts = [];
  }

  set(changes) {
    Object.assign(this, changes);
    for (const chart of this.charts) chart.schedule();
  }

  // Zoom by a factor around a fraction of the visible section of `chart`.
  zoom(chart, factor, fraction = 0.5) {
    const [low, high] = chart.range();
    const centre = low + fraction * (high - low);
    this.show(chart, centre - fraction * (high - low) * factor,
      centre + (1 - fraction) * (high - low) * factor);
  }

  show(chart, low, high) {
    const [first, last] = chart.whole();
    if (high - low >= last - first || !(last > first)) return this.set({ range: null });
    const width = Math.max(high - low, (last - first) * 1e-6);
    const start = clamp(low, first, last - width);
    this.set({ range: [start, start + width] });
  }
}

// Exponential moving average without the bias of its start; gaps stay gaps.
function smooth(points, weight) {
  let sum = 0;
  let norm = 0;
  return points.map(([x, y]) => {
    if (!isNumber(y)) return [x, NaN];
    sum = weight * sum + (1 - weight) * y;
    norm = weight * norm + (1 - weight);
    return [x, sum / norm];
  });
}

// The index of the point whose x is nearest, by bisection.
function nearestIndex(points, x) {
  let low = 0;
  let high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle;
    else high = middle;
  }
  return high > 0 && points[high][0] - x < x - points[low][0] ? high : low;
}

function niceStep(span, count) {
  const raw = span / Math.max(1, count);
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const factor = [1, 2, 2.5, 5, 10].find((value) => value * power >= raw * 0.999);
  return factor * power;
}

function linearTicks(low, high, count) {
  const step = niceStep(high - low, count);
  if (!isNumber(step) || step <= 0) return [low];
  const start = Math.ceil(low / step - 1e-9);
  const end = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, end - start + 1) },
    (_, index) => Number(((start + index) * step).toPrecision(12)));
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const factors = decades > 3 ? [1] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  const every = Math.ceil(decades / 6);
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    if (power % every) continue;
    for (const factor of factors) ticks.push(factor * Math.pow(10, power));
  }
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

class Chart {
  constructor(data, view = new View()) {
    this.data = data;
    this.view = view;
    this.lines = data.lines.map((line) => Object.assign({ visible: true }, line,
      { points: line.points.slice().sort((a, b) => a[0] - b[0]) }));
    this.extent = this.findExtent();
    this.cursor = null;
    this.element = this.makeElement();
    view.charts.push(this);
  }

  findExtent() {
    let low = Infinity;
    let high = -Infinity;
    for (const { points } of this.lines) {
      if (!points.length) continue;
      low = Math.min(low, points[0][0]);
      high = Math.max(high, points[points.length - 1][0]);
    }
    if (this.data.diagonal) return [Math.min(0, low), Math.max(1, high)];
    return low > high ? [0, 1] : [low, high];
  }

  // The first and last x of all charts of the view: they have one axis.
  whole() {
    const extents = this.view.charts.map((chart) => chart.extent);
    const low = Math.min(...extents.map(([first]) => first));
    const high = Math.max(...extents.map(([, last]) => last));
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  }

  range() {
    return this.view.range || this.whole();
  }

  // ---- Elements ----

  makeElement() {
    const { title, note } = this.data;
    const id = newId("chart");
    this.tip = make("div", { class: "tip", "aria-hidden": "true", hidden: true });
    this.svg = makeSvg("svg", { "aria-hidden": "true", height: HEIGHT });
    this.plot = make("div", { class: "plot", tabindex: "0", role: "application",
      "aria-roledescription": "chart", "aria-label": this.describe(), "aria-describedby": "keys" },
      this.svg, this.tip);
    this.listen();
    whenNear(this.plot, () => this.draw());
    new ResizeObserver(() => this.schedule()).observe(this.plot);
    return make("figure", { class: "chart", id, "aria-labelledby": id + "-title" },
      make("figcaption", { id: id + "-title" }, title,
        this.data.y ? make("span", { class: "muted" }, " " + this.data.y) : null),
      this.lines.length > 1 || this.data.legend ? this.makeLegend() : null,
      this.plot, note ? make("p", { class: "muted small" }, note) : null,
      makeDetails(this.tableTitle(), () => this.makePointTable(), { class: "points" }));
  }

  describe() {
    const { title, x } = this.data;
    const [low, high] = this.extent;
    const names = this.lines.map((line) => line.name);
    const some = names.slice(0, 6).join(", ") + (names.length > 6 ? " and others" : "");
    return `${title}: line chart of ${some}; ${x} ${format(low)} to ${format(high)}.`;
  }

  tableTitle() {
    const points = this.lines.reduce((sum, line) => sum + line.points.length, 0);
    const total = this.lines.reduce((sum, line) => sum + (line.thinned || line.points.length), 0);
    return total > points
      ? `Table: ${format(points)} of ${format(total)} points, extremes among them`
      : "Table: " + plural(points, "point");
  }

  makeLegend() {
    return make("div", { class: "legend", role: "group", "aria-label": "Lines" },
      this.lines.map((line) => {
        const button = makeToggle([makeSwatch(line), line.name], true, (visible) => {
          line.visible = visible;
          this.schedule();
        });
        const stress = (other) => () => { this.stressed = other; this.schedule(); };
        button.addEventListener("pointerenter", stress(line));
        button.addEventListener("pointerleave", stress(null));
        return button;
      }));
  }

  makePointTable() {
    const columns = [this.data.x];
    const rows = new Map();
    let width = 1;
    for (const line of this.lines) {
      const wide = line.points.some((point) => point.length > 2 && isNumber(point[2]));
      const names = wide ? [line.name, line.name + ", low", line.name + ", high"] : [line.name];
      for (const point of line.points) {
        if (!rows.has(point[0])) rows.set(point[0], [point[0]]);
        const row = rows.get(point[0]);
        names.forEach((_, index) => { row[width + index] = point[index + 1]; });
      }
      columns.push(...names);
      width += names.length;
    }
    const sorted = Array.from(rows.values()).sort((a, b) => a[0] - b[0]);
    for (const row of sorted) for (let i = 1; i < width; i += 1) if (!(i in row)) row[i] = "";
    return makeTable(columns, sorted, { caption: this.data.title + ": points", hideCaption: true,
      describe: formatAll });
  }

  // ---- Pointer and keys ----

  listen() {
    const plot = this.plot;
    plot.addEventListener("pointermove", (event) => this.movePointer(event));
    plot.addEventListener("pointerdown", (event) => this.pressPointer(event));
    plot.addEventListener("pointerup", (event) => this.releasePointer(event));
    plot.addEventListener("pointercancel", () => { this.drag = null; this.schedule(); });
    plot.addEventListener("pointerleave", () => this.leave());
    plot.addEventListener("blur", () => this.leave());
    plot.addEventListener("dblclick", () => this.view.set({ range: null }));
    plot.addEventListener("keydown", (event) => this.pressKey(event));
  }

  leave() {
    if (this.drag) return;
    this.cursor = null;
    this.schedule();
  }

  // The x of a pointer's event.
  pointerX(event) {
    const box = this.svg.getBoundingClientRect();
    const fraction = (event.clientX - box.left - MARGIN.left)
      / (box.width - MARGIN.left - MARGIN.right);
    const [low, high] = this.range();
    return low + clamp(fraction, 0, 1) * (high - low);
  }

  movePointer(event) {
    const x = this.pointerX(event);
    if (this.drag) this.drag.end = x;
    this.moveCursor(x);
  }

  pressPointer(event) {
    if (event.button !== 0) return;
    const x = this.pointerX(event);
    if (event.pointerType === "touch") return this.moveCursor(x);
    this.drag = { start: x, end: x, at: event.clientX };
    this.plot.setPointerCapture(event.pointerId);
  }

  releasePointer(event) {
    const drag = this.drag;
    this.drag = null;
    if (drag && Math.abs(event.clientX - drag.at) > 6) {
      this.view.show(this, Math.min(drag.start, drag.end), Math.max(drag.start, drag.end));
    }
    this.schedule();
  }

  pressKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this.range();
    const at = this.cursor === null ? 0.5 : clamp((this.cursor - low) / (high - low), 0, 1);
    const pan = (share) => {
      const shift = clamp(share * (high - low), this.whole()[0] - low, this.whole()[1] - high);
      this.view.show(this, low + shift, high + shift);
    };
    const actions = {
      ArrowLeft: () => (event.shiftKey ? pan(-0.25) : this.stepCursor(-1)),
      ArrowRight: () => (event.shiftKey ? pan(0.25) : this.stepCursor(1)),
      PageUp: () => this.stepCursor(-10),
      PageDown: () => this.stepCursor(10),
      Home: () => this.stepCursor(-Infinity),
      End: () => this.stepCursor(Infinity),
      "+": () => this.view.zoom(this, 0.5, at),
      "=": () => this.view.zoom(this, 0.5, at),
      "-": () => this.view.zoom(this, 2, at),
      0: () => this.view.set({ range: null }),
      Escape: () => this.leave(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // All x of visible points in the visible section, in order.
  visibleXs() {
    const [low, high] = this.range();
    const xs = new Set();
    for (const line of this.lines) {
      if (!line.visible) continue;
      for (const [x] of line.points) if (x >= low && x <= high) xs.add(x);
    }
    return Array.from(xs).sort((a, b) => a - b);
  }

  stepCursor(count) {
    const xs = this.visibleXs();
    if (!xs.length) return;
    const last = xs.length - 1;
    const start = this.cursor === null ? (count > 0 ? -1 : last + 1)
      : nearestIndex(xs.map((x) => [x]), this.cursor);
    this.cursor = xs[clamp(start + count, 0, last)];
    this.schedule();
    announce(this.readCursor().map(([, text]) => text).join("; "));
  }

  moveCursor(x) {
    let best = null;
    for (const line of this.lines) {
      if (!line.visible || !line.points.length) continue;
      const at = line.points[nearestIndex(line.points, x)][0];
      if (best === null || Math.abs(at - x) < Math.abs(best - x)) best = at;
    }
    this.cursor = best;
    this.schedule();
  }

  // [line or null, text] of what is at the cursor.
  readCursor() {
    const texts = [[null, this.data.x + " " + format(this.cursor, 6)]];
    for (const line of this.lines) {
      if (!line.visible || !line.points.length) continue;
      const index = nearestIndex(line.points, this.cursor);
      const [x, y, low, high] = line.points[index];
      if (x !== this.cursor && (x < this.range()[0] || x > this.range()[1])) continue;
      const average = this.smoothed(line);
      const notes = [average ? "smoothed " + format(average[index][1]) : "",
        isNumber(low) ? formatInterval(low, high) : "",
        x !== this.cursor ? "at " + format(x, 6) : ""].filter(Boolean).join(", ");
      texts.push([line, line.name + " " + format(toNumber(y)) + (notes ? ` (${notes})` : "")]);
    }
    const [low, high] = this.range();
    for (const event of this.eventsIn(low, high)) {
      if (Math.abs(event.step - this.cursor) <= (high - low) / 100) {
        texts.push([null, `${EVENT_SIGNS[event.kind] || "•"} ${event.text}`]);
      }
    }
    return texts;
  }

  // ---- Drawing ----

  schedule() {
    if (this.pending || nearby.has(this.plot)) return;
    this.pending = requestAnimationFrame(() => { this.pending = null; this.draw(); });
  }

  smoothed(line) {
    const weight = this.view.smoothing;
    if (!weight || line.area || this.data.plain) return null;
    if (!line.average || line.average.weight !== weight) {
      line.average = smooth(line.points, weight);
      line.average.weight = weight;
    }
    return line.average;
  }

  isLogarithmic() {
    return this.view.logarithmic && !this.data.plain;
  }

  eventsIn(low, high) {
    return list(this.data.events).filter(({ step }) => step >= low && step <= high);
  }

  // The lowest and highest value of the visible section.
  verticalExtent(low, high) {
    let bottom = Infinity;
    let top = -Infinity;
    const include = (value) => {
      if (!isNumber(value) || (this.isLogarithmic() && value <= 0)) return;
      bottom = Math.min(bottom, Math.max(value, -LARGEST));
      top = Math.max(top, Math.min(value, LARGEST));
    };
    for (const line of this.lines) {
      if (!line.visible) continue;
      for (const [x, ...values] of line.points) if (x >= low && x <= high) values.forEach(include);
    }
    if (this.data.diagonal) [0, 1].forEach(include);
    if (bottom > top) return this.isLogarithmic() ? [0.1, 1] : [0, 1];
    if (this.isLogarithmic()) return bottom === top ? [bottom / 2, top * 2] : [bottom, top];
    const space = bottom === top ? Math.abs(top) * 0.1 || 0.5 : (top - bottom) * 0.04;
    return [bottom - space, top + space];
  }

  scales() {
    const width = Math.max(this.plot.clientWidth, 200);
    const [left, right] = this.range();
    const [bottom, top] = this.verticalExtent(left, right);
    const scale = this.isLogarithmic() ? Math.log : (value) => value;
    const span = scale(top) - scale(bottom);
    const inner = width - MARGIN.left - MARGIN.right;
    const high = HEIGHT - MARGIN.top - MARGIN.bottom;
    return {
      width, left, right, bottom, top,
      x: (value) => MARGIN.left + inner * (value - left) / (right - left),
      y: (value) => (this.isLogarithmic() && !(value > 0) ? NaN
        : MARGIN.top + high * (1 - (scale(value) - scale(bottom)) / span)),
    };
  }

  draw() {
    const scales = this.scales();
    const clip = newId("clip");
    this.svg.textContent = "";
    setAttributes(this.svg, { viewBox: `0 0 ${scales.width} ${HEIGHT}` });
    const lines = this.lines.filter((line) => line.visible);
    append(this.svg, [
      makeSvg("clipPath", { id: clip }, makeSvg("rect", { x: MARGIN.left - 6, y: 0,
        width: scales.width - MARGIN.left - MARGIN.right + 12, height: HEIGHT - MARGIN.bottom })),
      this.drawAxes(scales),
      makeSvg("g", { "clip-path": `url(#${clip})` }, this.drawEvents(scales),
        this.data.diagonal ? makeSvg("path", { class: "diagonal",
          d: `M${scales.x(0)} ${scales.y(0)}L${scales.x(1)} ${scales.y(1)}` }) : null,
        lines.map((line) => this.drawLine(line, scales)), this.drawDrag(scales)),
      this.drawCursor(scales),
    ]);
  }

  drawAxes({ x, y, width, left, right, bottom, top }) {
    const floor = HEIGHT - MARGIN.bottom;
    const rows = this.isLogarithmic() ? logTicks(bottom, top) : linearTicks(bottom, top, 5);
    const columns = linearTicks(left, right, Math.max(2, width / 110));
    return makeSvg("g", { class: "axes" },
      rows.map((tick) => [
        makeSvg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
        makeSvg("text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" },
          format(tick))]),
      columns.map((tick) => makeSvg("text", { x: x(tick), y: floor + 16, "text-anchor": "middle" },
        format(tick))),
      makeSvg("line", { class: "base", x1: MARGIN.left, x2: width - MARGIN.right, y1: floor,
        y2: floor }),
      makeSvg("text", { class: "axis-name", x: width - MARGIN.right, y: HEIGHT - 2,
        "text-anchor": "end" }, this.data.x));
  }

  drawLine(line, scales) {
    const style = this.lineStyle(line);
    const average = this.smoothed(line);
    const points = this.cut(line.points, scales);
    const shape = (part, classes) => makeSvg("path",
      Object.assign({ class: classes, d: tracePath(part, scales) }, style));
    const group = makeSvg("g", { class: this.stressed && this.stressed !== line ? "dim" : null });
    return append(group, [
      line.area ? makeSvg("path", { class: "area", d: traceArea(points, scales),
        fill: style.stroke }) : null,
      shape(points, average ? "line raw" : "line"),
      average ? shape(this.cut(average, scales), "line") : null,
      points.length < 40 || this.data.diagonal ? drawDots(points, scales, style.stroke) : null,
      line.area ? null : drawIntervals(points, scales, style.stroke),
      drawGaps(points, scales, style.stroke),
    ]);
  }

  lineStyle(line) {
    return { stroke: `var(--c${line.colour % COLOURS})`,
      "stroke-dasharray": DASHES[line.dash % DASHES.length] || null };
  }

  // The points of the visible section and one on each side.
  cut(points, { left, right }) {
    if (!this.view.range) return points;
    const start = nearestIndex(points, left);
    const end = nearestIndex(points, right);
    return points.slice(Math.max(0, start - 1), end + 2);
  }

  drawEvents({ x, left, right }) {
    let last = -Infinity;
    const group = makeSvg("g", { class: "event-marks" });
    for (const event of this.eventsIn(left, right)) {
      const at = x(event.step);
      if (at - last < 9) continue;  // marks that would hide each other; the table has all events
      last = at;
      append(group, [
        makeSvg("line", { x1: at, x2: at, y1: MARGIN.top - 2, y2: HEIGHT - MARGIN.bottom }),
        makeSvg("text", { x: at, y: MARGIN.top - 4, "text-anchor": "middle" },
          EVENT_SIGNS[event.kind] || "•")]);
    }
    return group;
  }

  drawDrag({ x }) {
    if (!this.drag) return null;
    const from = x(this.drag.start);
    const to = x(this.drag.end);
    return makeSvg("rect", { class: "drag", x: Math.min(from, to), y: MARGIN.top,
      width: Math.abs(to - from), height: HEIGHT - MARGIN.top - MARGIN.bottom });
  }

  drawCursor(scales) {
    this.tip.hidden = this.cursor === null;
    if (this.cursor === null) return null;
    const at = scales.x(this.cursor);
    const texts = this.readCursor();
    this.tip.textContent = "";
    append(this.tip, texts.slice(0, 13).map(([line, text]) =>
      make("div", {}, line ? makeSwatch(line) : null, text)));
    if (texts.length > 13) append(this.tip, [make("div", {}, `and ${texts.length - 13} more`)]);
    const isRight = at > scales.width / 2;
    setStyle(this.tip, { left: isRight ? "auto" : at + 10 + "px",
      right: isRight ? scales.width - at + 10 + "px" : "auto" });
    return makeSvg("g", { class: "cursor" },
      makeSvg("line", { x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
      texts.filter(([line]) => line).map(([line]) => this.drawCursorDot(line, scales)));
  }

  drawCursorDot(line, { x, y }) {
    const points = this.smoothed(line) || line.points;
    const [step, value] = points[nearestIndex(line.points, this.cursor)];
    if (!isNumber(value) || !isNumber(y(value))) return null;
    return makeSvg("circle", { cx: x(step), cy: y(value), r: 4,
      fill: this.lineStyle(line).stroke });
  }
}

function makeSwatch(line) {
  return makeSvg("svg", { class: "swatch", width: 26, height: 8, "aria-hidden": "true" },
    makeSvg("line", { x1: 1, x2: 25, y1: 4, y2: 4, "stroke-width": 2.5,
      stroke: `var(--c${line.colour % COLOURS})`,
      "stroke-dasharray": DASHES[line.dash % DASHES.length] || null }));
}

// The path through points; a value that is missing or not finite interrupts it.
function tracePath(points, { x, y }) {
  let path = "";
  let isOpen = false;
  for (const [step, value] of points) {
    const height = isNumber(value) ? y(value) : NaN;
    if (isNumber(height)) path += (isOpen ? "L" : "M") + x(step).toFixed(1) + " " + height.toFixed(1);
    isOpen = isNumber(height);
  }
  return path;
}

function traceArea(points, { x, y }) {
  const parts = points.filter(([, , low, high]) => isNumber(y(low)) && isNumber(y(high)));
  const upper = parts.map(([step, , , high]) => x(step).toFixed(1) + " " + y(high).toFixed(1));
  const lower = parts.map(([step, , low]) => x(step).toFixed(1) + " " + y(low).toFixed(1));
  return parts.length ? "M" + upper.concat(lower.reverse()).join("L") + "Z" : "";
}

function drawDots(points, { x, y }, fill) {
  return points.filter(([, value]) => isNumber(value) && isNumber(y(value)))
    .map(([step, value]) => makeSvg("circle", { cx: x(step), cy: y(value), r: 2.5, fill }));
}

function drawIntervals(points, { x, y }, stroke) {
  const parts = points.filter(([, , low, high]) => isNumber(low) && isNumber(high));
  const path = parts.map(([step, , low, high]) =>
    `M${x(step) - 3} ${y(low)}h6m-3 0V${y(high)}m-3 0h6`).join("");
  return path ? makeSvg("path", { class: "whisker", d: path, stroke }) : null;
}

// A cross on the axis where a value is not finite.
function drawGaps(points, { x }, stroke) {
  const path = points.filter(([, value]) => !isNumber(value)).slice(0, 500)
    .map(([step]) => `M${x(step) - 3} ${HEIGHT - MARGIN.bottom - 7}l6 6m-6 0l6-6`).join("");
  return path ? makeSvg("path", { class: "whisker", d: path, stroke }) : null;
}

// Charts that share one view, with their controls.
function makeChartGroup(charts, label) {
  const view = new View();
  const drawings = charts.map((data) => new Chart(data, view));
  const id = newId("smoothing");
  const output = make("output", { for: id }, "0");
  const input = make("input", { type: "range", id, min: 0, max: 0.99, step: 0.01, value: 0,
    oninput: () => {
      output.textContent = input.value;
      view.set({ smoothing: Number(input.value) });
    } });
  const zoom = (factor) => () => view.zoom(drawings[0], factor);
  return [
    make("div", { class: "toolbar", role: "group", "aria-label": label + ": controls" },
      make("label", { for: id }, "Smoothing"), input, output,
      makeToggle("Logarithmic", false, (logarithmic) => view.set({ logarithmic })),
      makeButton("Zoom in", zoom(0.5)), makeButton("Zoom out", zoom(2)),
      makeButton("Show all", () => view.set({ range: null }))),
    make("div", { class: "charts" }, drawings.map((chart) => chart.element)),
  ];
}

// The parts of a page with several runs: comparison and search.

// ---- Curves of several runs ----

// One chart per quantity and split. Runs that differ in the seed alone are a band.
function makeSharedCharts(runs, hasBands) {
  const curves = [].concat(...runs.map((run) => list(run.curves).map((curve) => ({ run, curve }))));
  const key = ({ curve }) => [curve.group, curve.name, curve.split].filter(Boolean).join("\n");
  return groupBy(curves, key).map(([, members]) => {
    const { name, split, group } = members[0].curve;
    return { title: (name || group) + (split ? ", " + split : ""), x: "step",
      legend: true, lines: hasBands ? makeBandLines(members) : members.map(makeRunLine) };
  });
}

function makeRunLine({ run, curve }) {
  const number = isNumber(run.colour) ? run.colour : run.id;
  return { name: run.name, colour: number, dash: number, points: curvePoints(curve),
    thinned: curve.thinned };
}

function makeBandLines(members) {
  const hasGroup = ({ run }) => run.seed_group !== null && run.seed_group !== undefined;
  const key = (member) => (hasGroup(member) ? "group " + member.run.seed_group
    : "run " + member.run.id);
  return groupBy(members, key).map(([, group]) => {
    const line = makeRunLine(group[0]);
    if (group.length === 1) return line;
    return Object.assign(line, { name: `${group[0].run.group_name || line.name} `
      + `(${group.length} seeds)`, area: true, points: joinPoints(group.map(({ curve }) =>
      curvePoints(curve))) });
  });
}

// [step, mean, lowest, highest] of several lines, where all of them have values.
function joinPoints(lines) {
  const clean = lines.map((points) => points.filter(([, y]) => isNumber(y)))
    .filter((points) => points.length);
  if (!clean.length) return [];
  const start = Math.max(...clean.map((points) => points[0][0]));
  const end = Math.min(...clean.map((points) => points[points.length - 1][0]));
  const steps = Array.from(new Set([].concat(...clean.map((points) => points.map(([x]) => x)))))
    .filter((step) => step >= start && step <= end).sort((a, b) => a - b);
  return steps.map((step) => {
    const values = clean.map((points) => interpolate(points, step));
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return [step, mean, Math.min(...values), Math.max(...values)];
  });
}

function interpolate(points, step) {
  const index = nearestIndex(points, step);
  const [x, y] = points[index];
  const other = points[index + (step > x ? 1 : -1)];
  if (x === step || !other) return y;
  return y + (other[1] - y) * (step - x) / (other[0] - x);
}

function makeSharedCurves(runs) {
  const box = make("div");
  const hasGroups = new Set(runs.map((run) => run.seed_group).filter(isNumber)).size
    < runs.filter((run) => isNumber(run.seed_group)).length;
  const show = (hasBands) => {
    box.textContent = "";
    append(box, makeChartGroup(makeSharedCharts(runs, hasBands), "Curves"));
  };
  show(hasGroups);
  return [hasGroups ? makeToggle("Seeds as bands", true, show) : null, box];
}

// ---- Comparison ----

const FIRST_VERDICTS = 6;
const VERDICT_SIGNS = { "separated": "≠", "not separated": "≈", "not comparable": "∅" };

function makeVerdicts(comparison, runs) {
  const name = (id) => nameRun(runs, id);
  const order = Object.keys(VERDICT_SIGNS);
  const verdicts = list(comparison.verdicts).slice().sort((a, b) =>
    order.indexOf(a.verdict) - order.indexOf(b.verdict));
  if (!verdicts.length) return make("p", { class: "muted" }, "There is no metric to compare.");
  const items = (part) => make("ul", { class: "verdicts" }, part.map((each) =>
    make("li", { class: slug(each.verdict) }, make("span", { class: "pill" },
      (VERDICT_SIGNS[each.verdict] || "·") + " " + each.verdict), " ",
    each.text || `${name(each.a)} and ${name(each.b)}: ${each.metric}`)));
  const isOpen = (each) => each.verdict !== "not comparable";
  const first = verdicts.some(isOpen) ? verdicts.filter(isOpen) : verdicts;
  const rest = first.slice(FIRST_VERDICTS);
  const others = verdicts.slice(first.length);
  return [items(first.slice(0, FIRST_VERDICTS)), rest.length
    ? makeDetails(`${format(rest.length)} more`, () => items(rest)) : null, others.length
    ? makeDetails(`${format(others.length)} not comparable`, () => items(others)) : null];
}

function nameRun(runs, id) {
  if (!isNumber(id)) return String(id);
  const run = runs.find((each) => each.id === id);
  return run ? run.name : "run " + id;
}

// One row per run or group: a dot, its interval, and the numbers beside them.
function makeDotPlot(metric, names) {
  const values = list(metric.values).map((each) => each || {});
  const numbers = [].concat(...values.map((each) => [each.value, each.low, each.high]))
    .filter(isNumber);
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const space = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  const place = (value) => 100 * (value - low + space) / (high - low + 2 * space) + "%";
  const rows = values.map((each, index) => [names[index], dotCell(each, place),
    each.value === undefined ? null : each.value, formatSpread(each),
    isNumber(each.seeds) ? each.seeds : null]);
  const title = metric.name + (metric.direction ? ` (${describeDirection(metric.direction)})` : "");
  return make("div", { class: "dots" }, makeTable(
    ["run", "place", metric.name, "95 % interval; of several seeds their range", "seeds"], rows, { caption: title, sortable: true }));
}

// The interval of one run; of several seeds, the range of their values, which is no interval.
function formatSpread(each) {
  const text = formatInterval(each.low, each.high);
  return text && each.seeds > 1 ? `${text} (range of ${format(each.seeds)} seeds)` : text;
}

function describeDirection(direction) {
  return { max: "higher is better", min: "lower is better" }[direction] || direction;
}

function dotCell(each, place) {
  const cell = make("span", { class: "dot-cell", "data-value": isNumber(each.value) ? each.value : "",
    "aria-hidden": "true" });
  if (!isNumber(each.value)) return cell;
  if (isNumber(each.low) && isNumber(each.high)) {
    cell.append(setStyle(make("span", { class: "dot-range" }), { left: place(each.low),
      right: `calc(100% - ${place(each.high)})` }));
  }
  cell.append(setStyle(make("span", { class: "dot" }), { left: place(each.value) }));
  return cell;
}

function makeDifferences(comparison, names) {
  const options = list(comparison.options);
  if (!options.length) return make("p", {}, "No option differs.");
  const rows = options.map((option) => [option.name, ...names.map((_, index) => [
    make("span", {}, formatValue(list(option.values)[index])),
    make("span", { class: "muted small block" }, list(option.origins)[index])])]);
  const texts = rows.map((row) => clean(row[0]).toLowerCase());
  const table = makeTable(["option", ...names], rows,
    { caption: "Options that differ", hideCaption: true });
  return [rows.length > 20 ? makeFilter("Filter options", rows, texts, table.showRows) : null, table];
}

function makeParting(comparison, runs) {
  return makeTable(["runs", "equal up to step", "different by step", "in words"],
    list(comparison.parting).map((each) => [`${nameRun(runs, each.a)} and `
      + nameRun(runs, each.b), each.step, each.differs_by, each.text]),
  { caption: "Where the runs parted", hideCaption: true });
}

function makeRunTable(runs) {
  const metrics = Array.from(new Set([].concat(...runs.map((run) =>
    list(run.headline).map((metric) => metric.name)))));
  const rows = runs.map((run) => [
    make("span", { "data-value": run.name }, makeSwatch({ colour: numberOf(run),
      dash: numberOf(run) }), " ", run.name),
    (run.status || {}).word, (run.status || {}).step,
    ...metrics.map((name) => headlineCell(run, name))]);
  return makeTable(["run", "status", "step", ...metrics], rows,
    { caption: "Runs", hideCaption: true, sortable: true });
}

function numberOf(run) {
  return isNumber(run.colour) ? run.colour : run.id;
}

function headlineCell(run, name) {
  const metric = list(run.headline).find((each) => each.name === name);
  if (!metric) return null;
  return make("span", { "data-value": isNumber(metric.value) ? metric.value : "" },
    metric.text || format(metric.value),
    make("span", { class: "muted small block" }, formatInterval(metric.low, metric.high),
      isNumber(metric.floor) ? ` floor ${format(metric.floor)}` : null));
}

// Each run as details, with the parts of its own page.
function makeRunDetails(runs) {
  return runs.map((run) => makeDetails([make("strong", {}, run.name), " ",
    (run.status || {}).word], () => make("div", { class: "run" }, makeSummary(run, null),
    runParts(run).filter(([title]) => title !== "Curves").map(([title, build]) =>
      [make("h3", {}, title), build()])), { class: "one-run" }));
}

function comparisonParts(page) {
  const { comparison, runs } = page;
  if (!comparison) return [];
  const has = (value) => list(value).length > 0;
  const names = list(comparison.names).length ? comparison.names : runs.map((run) => run.name);
  const more = ["code", "data", "software"].filter((name) => has(comparison[name]));
  return [
    ["Metrics", has(comparison.metrics), () => comparison.metrics.map((metric) =>
      makeDotPlot(metric, names))],
    ["Options that differ", true, () => makeDifferences(comparison, runs.map((run) => run.name))],
    ["What else differs", more.length, () => makeFacts(more.map((name) =>
      [name, comparison[name].map((text) => make("div", {}, text))]))],
    ["Where they parted", has(comparison.parting), () => makeParting(comparison, runs)],
  ].filter(([, isPresent]) => isPresent).map(([title, , build]) => [title, build]);
}

// ---- Search ----

// Columns are texts or {name, kind, log}; kind is option, metric, or anything else.
function searchColumns(search) {
  const options = list(search.space).map((each) => each.name || String(each).split(/[=: ]/)[0]);
  return list(search.columns).map((column, index) => {
    const name = column.name || String(column);
    const values = list(search.rows).map((row) => row[index]);
    return Object.assign({ kind: options.includes(name) ? "option" : "" },
      typeof column === "object" ? column : {},
      { name, index, isNumeric: values.some(isNumber)
        && values.every((value) => value === null || typeof value === "number") });
  });
}

function makeSearchSummary(page) {
  const { search } = page;
  const columns = searchColumns(search);
  const best = list(search.rows)[0];
  return make("div", { class: "summary alone" },
    make("div", { class: "lead" }, make("h1", {}, page.title),
      search.verdict ? make("p", { class: "verdict" }, search.verdict) : null,
      best ? make("dl", { class: "headline" }, makeTestValue(search.test), columns.filter((column) =>
        ["metric", "option"].includes(column.kind)).sort((a, b) =>
        (a.kind === b.kind ? a.index - b.index : a.kind === "metric" ? -1 : 1)).map((column) =>
        make("div", {}, make("dt", {}, column.name),
          make("dd", {}, make("span", { class: "value" }, format(best[column.index])),
            column.kind === "metric" ? make("span", { class: "detail" },
              "chosen by it; the best of many is too good by chance") : null)))) : null,
      search.budget ? make("p", { class: "muted" }, search.budget) : null),
    search.again ? make("div", { class: "again" }, make("h2", { class: "plain" }, "Train the best again"),
      makeCommand(search.again, "the command that trains the best configuration again")) : null);
}

// The best configuration's value on the test split, which no configuration was chosen by.
function makeTestValue(test) {
  if (!test || !isNumber(test.value)) return null;
  const hasSeeds = isNumber(test.seeds) && test.seeds > 1;
  const range = formatInterval(test.low, test.high);
  return make("div", { class: "leading" }, make("dt", {}, `test ${test.name}`),
    make("dd", {}, make("span", { class: "value" }, format(test.value)), range
      ? make("span", { class: "detail" }, hasSeeds ? `${test.seeds} seeds, ${range}`
        : `interval ${range}`) : null));
}

function makeSpace(search) {
  return makeFacts(list(search.space).map((each) => (typeof each === "object"
    ? [each.name, each.text || formatValue(each.values || each)] : ["", each])));
}

function makeImportance(search) {
  return makeBars("Importance", ["option", "share of the variance"], search.importance.map((each) =>
    ({ name: each.name, value: each.share, low: each.low, high: each.high,
      text: format(100 * each.share, 3) + " %" + (isNumber(each.low)
        ? ` (${format(100 * each.low, 3)} to ${format(100 * each.high, 3)})` : "") })));
}

// Table and parallel coordinates show the same rows: those that all brushes let through.
function makeTrials(search) {
  const columns = searchColumns(search);
  const rows = list(search.rows);
  const table = makeTable(columns.map((column) => column.name), rows,
    { caption: "Trials", sortable: true });
  const axes = columns.filter((column) => ["option", "metric"].includes(column.kind));
  const note = search.intervals
    ? make("p", { class: "muted" }, `low, high: ${search.intervals}`) : null;
  if (axes.length < 2 || rows.length < 2) return [table, note];
  return [new ParallelCoordinates(axes, rows, table.showRows).element, table, note];
}

const PARALLEL = { height: 310, top: 48, bottom: 30, side: 56 };

// One vertical axis per column and one line per row. Each axis has two handles, which a pointer
// drags and keys move; rows outside of any brush are faint.
class ParallelCoordinates {
  constructor(axes, rows, show) {
    this.rows = rows;
    this.show = show;
    this.axes = axes.map((axis) => makeAxis(axis, rows));
    this.svg = makeSvg("svg", { class: "parallel", height: PARALLEL.height });
    this.count = make("p", { class: "muted", "aria-live": "polite" });
    const box = make("div", { class: "scroll" }, this.svg);
    this.element = make("figure", { class: "chart wide" },
      make("figcaption", {}, "Parallel coordinates"), box, this.count,
      makeButton("Show all rows", () => this.reset()));
    setAttributes(this.svg, { role: "group", "aria-label":
      "Parallel coordinates: a line per trial; the handles on each axis filter the table below" });
    this.lines = makeSvg("g", { class: "rows", "aria-hidden": "true" });
    whenNear(this.element, () => this.layout());
    new ResizeObserver(() => nearby.has(this.element) || this.layout()).observe(box);
  }

  layout() {
    const least = 2 * PARALLEL.side + 110 * (this.axes.length - 1);
    const width = Math.max(this.svg.parentNode.clientWidth, least);
    if (width === this.width) return;
    this.width = width;
    setAttributes(this.svg, { width, viewBox: `0 0 ${width} ${PARALLEL.height}` });
    this.svg.textContent = "";
    this.axes.forEach((axis, index) => {
      axis.x = PARALLEL.side + index * (width - 2 * PARALLEL.side) / (this.axes.length - 1);
    });
    append(this.svg, [this.lines, this.axes.map((axis) => this.drawAxis(axis))]);
    this.update();
  }

  drawAxis(axis) {
    const label = (text, y) => makeSvg("text", { x: axis.x, y, "text-anchor": "middle" }, text);
    const choices = list(axis.names).length <= 12 ? list(axis.names).slice(1, -1) : [];
    axis.handles = [0, 1].map((end) => this.makeHandle(axis, end));
    return makeSvg("g", { class: "axis" }, label(axis.name, 13),
      makeSvg("line", { x1: axis.x, x2: axis.x, y1: PARALLEL.top, y2: floorOf() }),
      label(axis.describe(1), PARALLEL.top - 14), label(axis.describe(0), PARALLEL.height - 8),
      choices.map((name, index) => makeSvg("text", { class: "choice", x: axis.x + 8,
        y: heightOf((index + 1) / (choices.length + 1)) - 4 }, name)), axis.handles);
  }

  makeHandle(axis, end) {
    const name = `${axis.name}, ${end ? "highest" : "lowest"}`;
    const handle = makeSvg("rect", { class: "handle", x: axis.x - 9, width: 18, height: 7, rx: 3,
      tabindex: 0, role: "slider", "aria-label": name, "aria-orientation": "vertical",
      "aria-valuemin": 0, "aria-valuemax": 100 });
    const keys = { ArrowUp: 0.05, ArrowRight: 0.05, ArrowDown: -0.05, ArrowLeft: -0.05,
      Home: -1, End: 1 };
    handle.addEventListener("keydown", (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      this.move(axis, end, axis.brush[end] + keys[event.key]);
    });
    handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = this.svg.getBoundingClientRect();
      this.move(axis, end, (floorOf() - (event.clientY - box.top))
        / (floorOf() - PARALLEL.top));
    });
    return handle;
  }

  move(axis, end, fraction) {
    const other = axis.brush[1 - end];
    axis.brush[end] = end ? clamp(fraction, other, 1) : clamp(fraction, 0, other);
    this.update();
  }

  reset() {
    for (const axis of this.axes) axis.brush = [0, 1];
    this.update();
  }

  update() {
    const passes = (row) => this.axes.every((axis) => {
      const at = axis.fraction(row);
      const isWhole = axis.brush[0] <= 0 && axis.brush[1] >= 1;
      return isWhole || (at >= axis.brush[0] - 1e-9 && at <= axis.brush[1] + 1e-9);
    });
    const matches = this.rows.filter(passes);
    const paths = [[], []];
    for (const row of this.rows) paths[passes(row) ? 1 : 0].push(this.trace(row));
    this.lines.textContent = "";
    append(this.lines, [makeSvg("path", { class: "faint", d: paths[0].join("") }),
      makeSvg("path", { d: paths[1].join("") }),
      matches.length ? makeSvg("path", { class: "best", d: this.trace(matches[0]) }) : null]);
    for (const axis of this.axes) this.placeHandles(axis);
    this.count.textContent = `${format(matches.length)} of ${format(this.rows.length)} rows;`
      + " the first of them is emphasized";
    this.show(matches);
  }

  placeHandles(axis) {
    axis.handles.forEach((handle, end) => setAttributes(handle, {
      y: heightOf(axis.brush[end]) - (end ? 7 : 0),
      "aria-valuenow": Math.round(100 * axis.brush[end]),
      "aria-valuetext": axis.describe(axis.brush[end]) }));
  }

  trace(row) {
    const points = this.axes.filter((axis) => isNumber(axis.fraction(row)))
      .map((axis) => axis.x.toFixed(1) + " " + heightOf(axis.fraction(row)).toFixed(1));
    return points.length > 1 ? "M" + points.join("L") : "";
  }
}

function floorOf() {
  return PARALLEL.height - PARALLEL.bottom;
}

function heightOf(fraction) {
  return floorOf() - fraction * (floorOf() - PARALLEL.top);
}

// An axis with `fraction(row)`, from 0 to 1, and `describe(fraction)`.
function makeAxis(column, rows) {
  const axis = { name: column.name, brush: [0, 1] };
  const values = rows.map((row) => row[column.index]);
  if (!column.isNumeric) {
    const names = Array.from(new Set(values.filter((value) => value !== null).map(String)))
      .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const last = Math.max(1, names.length - 1);
    axis.names = names;
    axis.fraction = (row) => (row[column.index] === null ? NaN
      : names.indexOf(String(row[column.index])) / last);
    axis.describe = (fraction) => names[Math.round(fraction * (names.length - 1))] || "";
    return axis;
  }
  const numbers = values.filter(isNumber);
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const isLog = column.log && low > 0;
  const scale = isLog ? Math.log : (value) => value;
  const span = scale(high) - scale(low);
  axis.fraction = (row) => (isNumber(row[column.index])
    ? (span ? (scale(row[column.index]) - scale(low)) / span : 0.5) : NaN);
  axis.describe = (fraction) => {
    const at = scale(low) + fraction * span;
    return format(isLog ? Math.exp(at) : at, 3);
  };
  return axis;
}

// The pictures of several runs side by side, under the same title.
function makeSideBySide(runs) {
  const entries = [].concat(...runs.map((run) => [
    ...list(run.pictures).map((picture) => ({ run, title: picture.title || "Picture",
      build: () => makePicture(Object.assign({}, picture, { title: run.name })) })),
    ...list(run.sliders).filter((slider) => list(slider.frames).length).map((slider) => ({ run,
      title: slider.title, build: () => makeSlider(Object.assign({}, slider, { title: run.name })) }))]));
  return groupBy(entries, (entry) => entry.title).map(([title, members]) => [
    make("h3", {}, title),
    make("div", { class: "pictures" }, members.map((member) => member.build()))]);
}

function searchParts(page) {
  const { search } = page;
  const has = (value) => list(value).length > 0;
  return [
    ["Trials", has(search.rows), () => makeTrials(search)],
    ["Importance", has(search.importance), () => makeImportance(search)],
    ["Space", has(search.space), () => makeSpace(search)],
  ].filter(([, isPresent]) => isPresent).map(([title, , build]) => [title, build]);
}

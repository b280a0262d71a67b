// The parts of one run: summary, curves, pictures, matrices, tables, options and the rest.

const STATUS_SIGNS = { good: "✓", bad: "✕", open: "…" };
const LEVEL_WORDS = { none: "✓", note: "Note:", warning: "Warning:", error: "Error:" };

// ---- Summary ----

function makeStatus(run) {
  const status = run.status || { word: "unknown" };
  const kind = status.good ? "good" : status.good === false ? "bad" : "open";
  return make("p", { class: "status" },
    make("span", { class: "pill " + kind }, STATUS_SIGNS[kind] + " " + status.word),
    status.text ? make("span", {}, status.text) : null,
    status.model ? make("span", { class: "muted small" }, status.model) : null);
}

function makeHeadline(metrics) {
  if (!list(metrics).length) return make("p", { class: "muted" }, "No result of a test is recorded.");
  const count = (text) => metrics.filter(({ note }) => note === text).length;
  const notes = metrics.map(({ note }) => note).filter((note) => count(note) > 1);
  const common = metrics.length > 1 ? notes[0] : null;
  return [make("dl", { class: "headline" }, metrics.map((metric, index) =>
    make("div", { class: index ? null : "leading" }, make("dt", {}, metric.name),
      make("dd", {}, make("span", { class: "value" }, metric.text || format(metric.value)),
        describeMetric(metric, common).map((text) => make("span", { class: "detail" }, text)))))),
  common ? make("p", { class: "muted small" }, common) : null];
}

// The interval, the floor and the note of a metric, one text each; not the note of all metrics.
function describeMetric(metric, common) {
  const level = isNumber(metric.level) ? Number((100 * metric.level).toPrecision(6)) + " % " : "";
  const range = formatInterval(metric.low, metric.high);
  return [range && `${level}interval ${range}`,
    isNumber(metric.floor) && `floor ${format(metric.floor)}: what real data gets`,
    metric.note !== common && metric.note].filter(Boolean);
}

function makeWorst(worst) {
  if (!worst || !worst.text) return null;
  const level = LEVEL_WORDS[worst.level] ? worst.level : "note";
  return make("p", { class: "worst " + level }, make("strong", {}, LEVEL_WORDS[level]), " ",
    worst.text);
}

// Where the first value that is not finite came from.
function makeAutopsy(texts) {
  return list(texts).length ? make("ul", { class: "autopsy small" },
    texts.map((text) => make("li", {}, text))) : null;
}

// What shows the run at a glance: the grids over its steps, or the first picture.
function glanceOwner(run) {
  return list(run.sliders).find((slider) => list(slider.frames).length) || list(run.pictures)[0];
}

function makeGlance(run) {
  const owner = glanceOwner(run);
  if (!owner) return null;
  return owner.frames ? makeSlider(owner) : makePicture(owner);
}

function makeSummary(run, title) {
  const glance = makeGlance(run);
  const lead = make("div", { class: "lead" }, title, makeStatus(run), makeHeadline(run.headline),
    makeWorst(run.worst), makeAutopsy(run.autopsy));
  return make("div", { class: glance ? "summary" : "summary alone" }, lead,
    glance ? make("div", { class: "glance" }, glance) : null,
    run.again ? make("div", { class: "again" }, make("h2", { class: "plain" }, "Make it again"),
      makeCommand(run.again, "the command that makes this run again"),
      list(run.again_needs).map((text) => make("p", { class: "muted small" }, text))) : null);
}

// ---- Curves ----

function curvePoints(curve) {
  return list(curve.steps).map((step, index) => [step, toNumber(list(curve.values)[index])]);
}

// One chart per group: the lines of one run overlay.
function makeRunCharts(curves, events) {
  return groupBy(list(curves).filter(isLine), (curve) => curve.group || curve.name).map(([group, members]) => ({
    title: group, x: "step", events,
    lines: members.map((curve, index) => ({ name: curveName(curve, members), colour: index,
      dash: index, points: curvePoints(curve), thinned: curve.thinned })) }));
}

// Whether a curve has two points; one point is a number, see makeSinglePoints.
function isLine(curve) {
  return list(curve.steps).length > 1;
}

// A table of the curves with one point each.
function makeSinglePoints(curves) {
  const rows = list(curves).filter((curve) => !isLine(curve) && list(curve.steps).length)
    .map((curve) => [curve.name, curve.split, list(curve.steps)[0],
      toNumber(list(curve.values)[0])]);
  return rows.length ? makeTable(["name", "split", "step", "value"], rows,
    { caption: "Recorded once" }) : null;
}

const SPLITS_NOTE = "train: the batch of that step as it is trained on, with augmentation and"
  + " dropout, so it may look worse than validation: the whole split, without them.";

function makeCurves(run) {
  const charts = makeRunCharts(run.curves, run.events);
  const splits = new Set(list(run.curves).map(({ split }) => split));
  return [charts.length ? makeChartGroup(charts, "Curves") : null, makeSinglePoints(run.curves),
    splits.has("train") && splits.has("validation")
      ? make("p", { class: "muted small" }, SPLITS_NOTE) : null];
}

// The name of a curve among those of its chart.
function curveName(curve, curves) {
  const hasOneName = curves.every((other) => other.name === curve.name);
  const hasOneSplit = curves.every((other) => other.split === curve.split);
  if (hasOneName && curve.split) return curve.split;
  return hasOneSplit || !curve.split ? curve.name : `${curve.name}, ${curve.split}`;
}

function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return Array.from(groups);
}

// ---- Matrices ----

const LARGEST_TABLE = 20;  // classes; more are drawn as a map

function rowShares(counts) {
  return counts.map((row) => {
    const sum = row.reduce((total, value) => total + (toNumber(value) || 0), 0);
    return row.map((value) => (sum > 0 ? (toNumber(value) || 0) / sum : 0));
  });
}

function makeMatrix(matrix) {
  const names = list(matrix.names);
  const counts = list(matrix.counts);
  const shares = rowShares(counts);
  const title = matrix.title || "Confusion";
  const table = () => makeMatrixTable(title, names, counts, shares);
  const isLarge = names.length > LARGEST_TABLE;
  return make("figure", { class: "matrix" },
    make("figcaption", {}, title, make("span", { class: "muted" },
      " rows: label, columns: prediction; shade: share of the label")),
    isLarge ? [makeMap(title, names, counts, shares), makeConfusions(names, counts, shares),
      makeDetails(`Table: ${names.length} by ${names.length}`, table, { class: "points" })]
      : table());
}

function makeMatrixTable(title, names, counts, shares) {
  const rows = counts.map((row, i) => make("tr", {}, make("th", { scope: "row" }, names[i]),
    row.map((count, j) => setStyle(make("td", { class: i === j ? "number hit" : "number",
      title: `${format(100 * shares[i][j], 3)} % of ${names[i]}` },
    count ? format(count) : make("span", { class: "zero" }, "0")),
    { "--share": shares[i][j].toFixed(3) }))));
  const table = make("table", { class: "shaded" },
    make("caption", { class: "sr" }, title + ": counts, a row per label, a column per prediction"),
    make("thead", {}, make("tr", {}, make("td", {}),
      names.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, rows));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table);
}

// The pairs that are confused most, as a table.
function makeConfusions(names, counts, shares) {
  const pairs = [];
  counts.forEach((row, i) => row.forEach((count, j) => {
    if (i !== j && count > 0) pairs.push([names[i], names[j], count, 100 * shares[i][j]]);
  }));
  pairs.sort((a, b) => b[2] - a[2]);
  return makeTable(["label", "prediction", "examples", "% of the label"], pairs.slice(0, 20),
    { caption: "The largest confusions", sortable: true });
}

const MAP_SHADES = 8;

// A matrix of many classes as a map; a cursor by pointer or arrow keys reads its cells.
function makeMap(title, names, counts, shares) {
  const size = names.length;
  const cursor = makeSvg("rect", { class: "map-cursor", width: 1, height: 1, visibility: "hidden" });
  const text = make("p", { class: "map-text muted" }, "Point at a cell, or use the arrow keys.");
  const paths = Array.from({ length: MAP_SHADES }, () => []);
  shares.forEach((row, i) => row.forEach((share, j) => {
    if (share > 0) paths[Math.min(MAP_SHADES - 1, Math.floor(share * MAP_SHADES))].push(
      `M${j} ${i}h1v1h-1z`);
  }));
  const svg = makeSvg("svg", { viewBox: `0 0 ${size} ${size}`, "shape-rendering": "crispEdges",
    "aria-hidden": "true" }, makeSvg("rect", { class: "map-ground", width: size, height: size }),
  paths.map((path, shade) => makeSvg("path", { d: path.join(""), class: "map-shade",
    "fill-opacity": ((shade + 1) / MAP_SHADES).toFixed(3) })), cursor);
  let at = [0, 0];
  const show = (row, column, isSpoken) => {
    at = [clamp(row, 0, size - 1), clamp(column, 0, size - 1)];
    const [i, j] = at;
    setAttributes(cursor, { x: j, y: i, visibility: "visible" });
    text.textContent = clean(`${names[i]} predicted as ${names[j]}: ${format(counts[i][j])} `
      + `(${format(100 * shares[i][j], 3)} %)`);
    if (isSpoken) announce(text.textContent);
  };
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const plot = make("div", { class: "map", tabindex: "0", role: "application",
    "aria-roledescription": "map", "aria-label": `${title}: map of ${size} by ${size} classes` },
  svg);
  plot.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    show(at[0] + move[0], at[1] + move[1], true);
  });
  plot.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    show(Math.floor((event.clientY - box.top) / box.height * size),
      Math.floor((event.clientX - box.left) / box.width * size), false);
  });
  return [plot, text];
}

// ---- Tables, charts, speed, events ----

function makePluginTable(table) {
  return [makeTable(list(table.columns), list(table.rows).map(list),
    { caption: table.title, sortable: true }),
  table.note ? make("p", { class: "muted small" }, table.note) : null];
}

function makePluginChart(chart) {
  const lines = list(chart.lines).map((line, index) => ({ name: line.name || chart.title,
    colour: index, dash: index, points: list(line.points).map((point) => point.map(toNumber)) }));
  return new Chart({ title: chart.title, x: chart.x || "x", y: chart.y, lines, plain: true,
    diagonal: chart.diagonal, note: chart.note }).element;
}

function makeSpeed(run) {
  const speed = run.speed || {};
  const hooks = list(speed.hooks);
  const charts = makeRunCharts(speed.curves, run.events);
  return [charts.length ? makeChartGroup(charts, "Speed") : null, makeSinglePoints(speed.curves),
    speed.text ? make("p", {}, speed.text) : null,
    hooks.length ? [make("h3", {}, "Cost of the hooks"),
      makeBars("Cost of the hooks", ["hook", "milliseconds per step"], hooks.map((hook) =>
        ({ name: hook.name, value: hook.ms, text: format(hook.ms, 3) + " ms" })))] : null];
}

function makeEvents(events) {
  return makeTable(["step", "event", "text"], events.map((event) =>
    [event.step, `${EVENT_SIGNS[event.kind] || "•"} ${event.kind}`, event.text]),
  { caption: "Events", hideCaption: true, sortable: true });
}

// ---- Options and facts ----

function makeOptions(options, caption) {
  const order = options.slice().sort((a, b) => Boolean(a.default) - Boolean(b.default));
  const rows = order.map((option) => Object.assign(
    [option.name, formatValue(option.value), option.origin || "default"],
    { className: option.default ? "default" : "set" }));
  const texts = rows.map((row) => clean(row.join(" ")).toLowerCase());
  const table = makeTable(["option", "value", "origin"], rows, { caption, hideCaption: true });
  return [make("p", { class: "muted" }, "Those that differ from their default come first."),
    makeFilter("Filter options", rows, texts, table.showRows), table];
}

// Facts of any shape: plain values as a list, lists of objects as tables.
function makeAnyFacts(facts, caption) {
  if (Array.isArray(facts)) return makeFacts(facts.map(([name, value]) => [name, formatValue(value)]));
  const entries = Object.entries(facts || {}).filter(([, value]) => value !== null);
  const isRows = ([, value]) => Array.isArray(value) && value.length && typeof value[0] === "object";
  return [makeFacts(entries.filter((entry) => !isRows(entry)).map(([name, value]) =>
    [name, formatFact(value)])),
  entries.filter(isRows).map(([name, rows]) => makeRecords(rows, `${caption}: ${name}`))];
}

function formatFact(value) {
  if (Array.isArray(value)) return value.map(formatValue).join(", ") || "none";
  if (value && typeof value === "object") {
    return Object.entries(value).map(([name, each]) =>
      make("div", {}, make("span", { class: "muted" }, name + " "), formatValue(each)));
  }
  return typeof value === "number" ? format(value, 6) : formatValue(value);
}

function makeRecords(rows, caption) {
  if (Array.isArray(rows[0])) return makeFacts(rows.map(([name, value]) => [name, formatFact(value)]));
  const columns = Array.from(new Set(rows.flatMap ? rows.flatMap(Object.keys) : Object.keys(rows[0])));
  return makeTable(columns, rows.map((row) => columns.map((column) => {
    const value = row[column];
    return typeof value === "object" && value !== null ? formatValue(value) : value;
  })), { caption });
}

function makeVerification(verify) {
  return [
    verify.head ? make("p", {}, "Head of the run's chain: ", make("code", { class: "hash" },
      verify.head)) : make("p", {}, "The run has no commit yet."),
    verify.text ? make("p", {}, verify.text) : null,
    verify.command ? [make("p", {}, "This command compares the run's folder with its chain:"),
      makeCommand(verify.command, "the command that verifies the run")] : null,
    verify.page ? [make("p", {}, "This one writes the page again. While the folder is the same, so"
      + " are the bytes of the page:"),
    makeCommand(verify.page, "the command that writes this page again")] : null];
}

// What the test wrote on the console.
function makeLines(lines) {
  return make("pre", { class: "lines", tabindex: "0" }, make("code", {}, lines.join("\n")));
}

function makeNotes(notes) {
  return make("ul", {}, notes.map((note) => make("li", {}, note)));
}

// ---- All sections of a run ----

// [title, function that builds the content] of what the run has.
function runParts(run) {
  const glance = glanceOwner(run);
  const pictures = list(run.pictures).filter((picture) => picture !== glance);
  const sliders = list(run.sliders).filter((slider) => slider !== glance
    && list(slider.frames).length);
  const has = (value) => list(value).length > 0;
  const speed = run.speed || {};
  return [
    ["Curves", has(run.curves), () => makeCurves(run)],
    ["Samples", has(sliders), () => make("div", { class: "sliders" }, sliders.map(makeSlider))],
    ["Confusion", has(run.matrices), () => run.matrices.map(makeMatrix)],
    ["Tables", has(run.tables), () => run.tables.map(makePluginTable)],
    ["Charts", has(run.charts), () => make("div", { class: "charts" },
      run.charts.map(makePluginChart))],
    ["Pictures", has(pictures), () => make("div", { class: "pictures" }, pictures.map(makePicture))],
    ["Speed", has(speed.curves) || has(speed.hooks), () => makeSpeed(run)],
    ["Events", has(run.events), () => makeEvents(run.events)],
    ["Lines of the test", has(run.lines), () => makeLines(run.lines)],
    ["Options", has(run.options), () => makeOptions(run.options, "Options of " + run.name)],
    ["Data", run.data && Object.keys(run.data).length, () => makeAnyFacts(run.data, "Data")],
    ["Environment", has(run.environment), () => makeAnyFacts(run.environment, "Environment")],
    ["Verification", run.verify, () => makeVerification(run.verify)],
    ["Notes", has(run.notes), () => makeNotes(run.notes)],
  ].filter(([, isPresent]) => isPresent).map(([title, , build]) => [title, build]);
}

// Elements of the page, texts and numbers. All text of a run comes through `clean` into text nodes
// or attributes, never into markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that are invisible or change the direction of what follows, as visible codes.
function clean(text) {
  return String(text).replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"));
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : clean(child));
  }
  return element;
}

function setAttributes(element, attributes) {
  for (const name of Object.keys(attributes)) {
    const value = attributes[name];
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : clean(value));
  }
  return element;
}

// An HTML element: attributes named on... are listeners; children are elements, texts or lists.
function make(tag, attributes = {}, ...children) {
  return append(setAttributes(document.createElement(tag), attributes), children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return append(setAttributes(document.createElementNS(SVG, tag), attributes), children);
}

// Sizes and colours that depend on data.
function setStyle(element, properties) {
  for (const name of Object.keys(properties)) element.style.setProperty(name, properties[name]);
  return element;
}

function list(value) {
  return Array.isArray(value) ? value : [];
}

let lastId = 0;
function newId(prefix) {
  lastId += 1;
  return prefix + "-" + lastId;
}

function slug(text) {
  return String(text).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
}

function isNumber(value) {
  return typeof value === "number" && isFinite(value);
}

function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

// A number of the data: null, and the texts "nan" and "inf" that strict JSON needs, are NaN.
function toNumber(value) {
  return typeof value === "number" ? value : NaN;
}

function groupDigits(text) {
  return text.replace(/\B(?=(\d{3})+$)/g, ",");
}

// Four significant digits, as a reader wants them; tables of points have all digits.
function format(value, digits = 4) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (!isFinite(value)) return isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) {
    return value < 0 ? "−" + groupDigits(String(-value)) : groupDigits(String(value));
  }
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e6
    ? value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e")
    : String(Number(value.toPrecision(digits)));
  return text.replace(/-/g, "−");
}

function formatAll(value) {
  return value === null || Number.isNaN(value) ? "nan" : String(value);
}

// A value of an option or of the environment in one line.
function formatValue(value) {
  if (value === null || value === undefined || value === "") return "none";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value === "object" && !Object.keys(value).length) return "none";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

function formatInterval(low, high) {
  return isNumber(low) && isNumber(high) ? format(low) + " to " + format(high) : "";
}

function plural(count, noun) {
  return format(count) + " " + noun + (count === 1 ? "" : "s");
}

function announce(text) {
  document.getElementById("live").textContent = clean(text);
}

// A section of the page with its heading; `build` fills it.
function makeSection(title, ...children) {
  const id = document.getElementById(slug(title)) ? slug(title) + "-section" : slug(title);
  const heading = make("h2", { id: id + "-heading" }, title);
  return make("section", { id, "aria-labelledby": id + "-heading" }, heading, children);
}

// Details that are built when they are opened, since most readers never open them.
function makeDetails(summary, build, attributes = {}) {
  const details = make("details", attributes, make("summary", {}, summary));
  details.fill = () => {
    if (details.fill) append(details, [build()]);
    details.fill = null;
  };
  details.addEventListener("toggle", () => details.open && details.fill && details.fill());
  return details;
}

// Call `action` once, when the element comes near the window, or at once before printing.
const nearby = new Map();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) runNearby(entry.target);
}, { rootMargin: "400px" });

function whenNear(element, action) {
  nearby.set(element, action);
  observer.observe(element);
  return element;
}

function runNearby(element) {
  const action = nearby.get(element);
  nearby.delete(element);
  observer.unobserve(element);
  if (action) action();
}

function makeButton(text, action, attributes = {}) {
  return make("button", Object.assign({ type: "button", onclick: action }, attributes), text);
}

function makeToggle(text, pressed, action, attributes = {}) {
  const button = makeButton(text, () => {
    const next = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(next));
    action(next);
  }, Object.assign({ "aria-pressed": String(pressed) }, attributes));
  return button;
}

// A command with a button that copies it.
function makeCommand(text, label) {
  const code = make("code", { tabindex: "0", role: "region", "aria-label": label }, text);
  const button = makeButton("Copy", () => copyText(String(text), code, button),
    { "aria-label": "Copy: " + label });
  return make("div", { class: "command" }, make("pre", {}, code), button);
}

function copyText(text, code, button) {
  const report = (word) => {
    button.textContent = word;
    announce(word);
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };
  const select = () => {
    getSelection().selectAllChildren(code);
    report(document.execCommand("copy") ? "Copied" : "Selected");
  };
  if (!navigator.clipboard) return select();
  navigator.clipboard.writeText(text).then(() => report("Copied"), select);
}

// ---- Tables ----

const ROWS_AT_ONCE = 200;

// A table. Columns are texts or {name, note}; a cell is a value or an element.
// Options: caption, sortable, rowHeaders (the first cell names the row), describe (value -> text).
function makeTable(columns, rows, options = {}) {
  const body = make("tbody");
  const state = { rows, limit: ROWS_AT_ONCE, sort: -1, descending: false };
  const more = makeButton("", () => { state.limit *= 10; fill(); }, { class: "more" });
  const headers = columns.map((column, index) => makeHeader(column, index));
  const table = make("table", {},
    make("caption", { class: options.hideCaption ? "sr" : null }, options.caption),
    make("thead", {}, make("tr", {}, headers)), body);

  function makeHeader(column, index) {
    const name = column.name || column;
    const shape = typeof (rows[0] || [])[index] === "number" && index ? "number" : null;
    if (!options.sortable) return make("th", { scope: "col", class: shape }, name);
    return make("th", { scope: "col", class: shape }, makeButton(name, () => sortBy(index), { class: "sort" }));
  }

  function sortBy(index) {
    state.descending = state.sort === index && !state.descending;
    state.sort = index;
    headers.forEach((header, other) => {
      if (other !== index) header.removeAttribute("aria-sort");
      else header.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    });
    state.rows = sortRows(state.rows, index, state.descending);
    fill();
  }

  function fill() {
    body.textContent = "";
    const part = state.rows.slice(0, state.limit);
    body.append(...part.map((row) => makeRow(row, options)));
    more.hidden = part.length === state.rows.length;
    more.textContent = "Show more (" + format(part.length) + " of "
      + format(state.rows.length) + " rows)";
  }

  fill();
  const box = make("div", { class: "table-box" },
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.caption },
      table), more);
  box.showRows = (next) => {
    state.rows = state.sort < 0 ? next : sortRows(next, state.sort, state.descending);
    fill();
  };
  return box;
}

function makeRow(row, options) {
  return make("tr", { class: row.className }, row.map((cell, index) => {
    const numeric = typeof cell === "number";
    if (index === 0 && options.rowHeaders !== false) {
      return make("th", { scope: "row" }, describeCell(cell, options));
    }
    return make("td", { class: numeric ? "number" : null }, describeCell(cell, options));
  }));
}

function describeCell(cell, options) {
  if (cell instanceof Node || Array.isArray(cell)) return cell;
  return (options.describe || format)(cell);
}

// Rows by one column: numbers by value, before texts, before what is missing.
function sortRows(rows, index, descending) {
  const key = (row) => {
    const cell = row[index];
    const value = cell instanceof Node ? cell.dataset.value || cell.textContent : cell;
    if (value === null || value === undefined || value === "" || Number.isNaN(value)) return [2, 0];
    return typeof value === "string" && isNaN(value) ? [1, value] : [0, Number(value)];
  };
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  const sign = descending ? -1 : 1;
  return rows.map((row) => [key(row), row]).sort(([a], [b]) =>
    a[0] === 2 || b[0] === 2 || a[0] !== b[0] ? (a[0] - b[0]) || 0 : sign * compare(a[1], b[1])
  ).map(([, row]) => row);
}

// A list of names and values.
function makeFacts(pairs) {
  return make("dl", { class: "facts" }, pairs.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

// A filter box over rows; `texts` has what is searched of each row.
function makeFilter(label, rows, texts, show) {
  const id = newId("filter");
  const count = make("span", { class: "muted", "aria-live": "polite" });
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = rows.filter((row, index) => words.every((word) => texts[index].includes(word)));
    count.textContent = matches.length === rows.length
      ? format(rows.length) : format(matches.length) + " of " + format(rows.length);
    show(matches);
  };
  const input = make("input", { type: "search", id, oninput: apply, autocomplete: "off" });
  count.textContent = format(rows.length);
  return make("div", { class: "filter" }, make("label", { for: id }, label), input, count);
}

// Horizontal bars, each with its number: rows are {name, value, low, high, text}.
function makeBars(caption, columns, rows) {
  const top = Math.max(...rows.map((row) => Math.max(toNumber(row.value) || 0,
    isNumber(row.high) ? row.high : 0)), 1e-300);
  const cells = rows.map((row) => {
    const bar = make("span", { class: "bar-fill" });
    setStyle(bar, { width: clamp(100 * (row.value || 0) / top, 0, 100) + "%" });
    const range = isNumber(row.low) && isNumber(row.high) ? make("span", { class: "bar-range" }) : null;
    if (range) {
      setStyle(range, { left: clamp(100 * row.low / top, 0, 100) + "%",
        width: clamp(100 * (row.high - row.low) / top, 0, 100) + "%" });
    }
    const track = make("span", { class: "bar-track", "aria-hidden": "true" }, bar, range);
    return [row.name, make("span", { class: "bar-cell", "data-value": row.value }, track,
      make("span", { class: "bar-text" }, row.text || format(row.value)))];
  });
  return makeTable(columns, cells, { caption, hideCaption: true, sortable: true });
}

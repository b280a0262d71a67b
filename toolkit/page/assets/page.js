// The whole page: summary, sections, theme and printing.

const page = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");

function hasPictures(run) {
  return list(run.pictures).length || list(run.sliders).length;
}

// The parts that pages of several runs have in common.
function sharedParts(runs) {
  return [
    ["Runs", runs.length > 0, () => makeRunTable(runs)],
    ["Curves", runs.some((run) => list(run.curves).length), () => makeSharedCurves(runs)],
    ["Pictures", runs.some(hasPictures), () => makeSideBySide(runs)],
    ["Each run", runs.length > 0, () => makeRunDetails(runs)],
  ].filter(([, isPresent]) => isPresent).map(([title, , build]) => [title, build]);
}

function makeSeveralSummary() {
  return make("div", { class: "summary alone" }, make("div", { class: "lead" },
    make("h1", {}, page.title),
    page.comparison ? makeVerdicts(page.comparison, page.runs) : null));
}

// [element of the first screen, [title, function that builds a section], ...]
function layoutPage() {
  const runs = list(page.runs);
  if (page.search) return [makeSearchSummary(page), ...searchParts(page), ...sharedParts(runs)];
  if (page.comparison || runs.length > 1) {
    const [table, ...others] = sharedParts(runs);
    return [makeSeveralSummary(), table, ...comparisonParts(page), ...others];
  }
  const run = runs[0] || { name: page.title };
  return [makeSummary(run, make("h1", {}, page.title || run.name)), ...runParts(run)];
}

function build() {
  const [summary, ...parts] = layoutPage();
  main.append(make("section", { "aria-label": "Summary" }, summary));
  main.append(make("p", { id: "keys", class: "sr" }, KEYS));
  if (list(page.notes).length) main.append(makeNotes(page.notes));
  for (const [title, fill] of parts) {
    const section = makeSection(title, fill());
    main.append(section);
    document.getElementById("sections").append(make("a", { href: "#" + section.id }, title));
  }
  append(document.getElementById("foot"), [`Written by toolkit ${page.toolkit || ""}. `,
    "Charts: point, or focus and use the arrow keys; drag or + and − zoom; 0 or a double click"
    + " shows all."]);
}

// ---- Theme, and the updates of a page that a running command rewrites ----

const THEMES = ["system", "light", "dark"];

// What this window remembers when the page is read again; a browser may refuse to.
function remember(name, value) {
  try {
    if (value !== undefined) sessionStorage.setItem(name, value);
    return sessionStorage.getItem(name);
  } catch (error) {
    return null;
  }
}

function makeThemeButton() {
  const button = makeButton("", () => show((THEMES.indexOf(theme) + 1) % THEMES.length));
  let theme;
  const show = (index) => {
    theme = THEMES[Math.max(0, index)];
    document.documentElement.dataset.theme = theme;
    button.textContent = "Theme: " + theme;
    remember("theme", theme);
  };
  show(THEMES.indexOf(remember("theme")));
  return button;
}

function makeUpdateButton(seconds) {
  if (!isNumber(seconds)) return null;
  let isOn = remember("updates") !== "off";
  setInterval(() => isOn && location.reload(), 1000 * Math.max(1, seconds));
  return makeToggle("Updates", isOn, (pressed) => {
    isOn = pressed;
    remember("updates", pressed ? "on" : "off");
  });
}

// ---- Printing: everything is open and all pictures are decoded ----

function openEverything() {
  document.querySelectorAll("details:not(.points)").forEach((details) => {
    details.open = true;
    if (details.fill) details.fill();
  });
  document.querySelectorAll(".slider").forEach((slider) => {
    if (slider.addStrip) slider.addStrip();
    slider.addStrip = null;
  });
  Array.from(nearby.keys()).forEach(runNearby);
}

async function printPage() {
  openEverything();
  while (decoding.size) await Promise.all(decoding);
  window.print();
}

addEventListener("beforeprint", openEverything);
addEventListener("keydown", (event) => {
  if (event.key !== "p" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  printPage();
});

build();
append(document.getElementById("tools"), [makeUpdateButton(page.refresh),
  makeThemeButton(), makeButton("Print", printPage)]);

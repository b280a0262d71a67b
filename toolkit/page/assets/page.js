// What a page cannot do without a script: sorting, sliders, copying, paper.

const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

function make(tag, attributes) {
  return Object.assign(document.createElement(tag), attributes);
}

function makeButton(text, onclick) {
  return make("button", { type: "button", textContent: text, onclick });
}

// Links to the sections.
all("section > h2").forEach((title, number) => {
  title.parentNode.id = "part-" + number;
  document.getElementById("sections").append(
    make("a", { href: "#part-" + number, textContent: title.textContent }));
});

// A click on the head of a column sorts the table: numbers by size, texts by their letters.
function sortBy(table, column, isDown) {
  const value = (row) => {
    const text = row.cells[column].dataset.v || row.cells[column].textContent;
    const number = Number(text.replace(/,/g, ""));
    return text === "–" || text === "" ? null : isNaN(number) ? text : number;
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true }));
  const rows = Array.from(table.tBodies[0].rows, (row) => [value(row), row]);
  rows.sort(([a], [b]) => (a === null) - (b === null) || (isDown ? -1 : 1) * compare(a, b));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

all("table.sortable").forEach((table) => all("thead th", table).forEach((head, column) => {
  head.replaceChildren(makeButton(head.textContent, () => {
    const isDown = head.getAttribute("aria-sort") === "ascending";
    all("th[aria-sort]", table).forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    sortBy(table, column, isDown);
  }));
}));

// A slider through the frames of one title; without a script, the last one is shown.
all(".slider").forEach((slider) => {
  const frames = all(".frame", slider);
  if (frames.length < 2) return;
  const last = frames.length - 1;
  const input = make("input", { type: "range", max: last, value: last, oninput: () => {
    frames.forEach((frame, number) => frame.classList.toggle("on", number === Number(input.value)));
    input.ariaValueText = frames[input.value].lastElementChild.textContent;
  } });
  input.ariaLabel = slider.lastElementChild.textContent;
  slider.insertBefore(input, slider.lastElementChild);
});

all(".command").forEach((box) => {
  const copy = makeButton("Copy", () => navigator.clipboard.writeText(
    box.firstElementChild.textContent).then(() => { copy.textContent = "Copied"; }));
  box.append(copy);
});

// Paper shows what is folded.
addEventListener("beforeprint", () => all("details:not(.chart details)").forEach((each) => {
  each.open = true;
}));

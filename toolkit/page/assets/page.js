// What a page cannot do without a script: sorting, sliders, copying, paper.

const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
const make = (tag, attributes) => Object.assign(document.createElement(tag), attributes);
const makeButton = (text, onclick) => make("button", { type: "button", textContent: text, onclick });

// Links to the sections.
all("section > h2").forEach((title, number) => {
  title.parentNode.id = "part-" + number;
  const link = make("a", { href: "#part-" + number, textContent: title.textContent });
  document.getElementById("sections").append(link);
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
    all("thead th", table).forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    sortBy(table, column, isDown);
  }));
}));

// A slider through the frames of one title; without a script, the last one is shown.
all(".slider").forEach((slider) => {
  const frames = all(".frame", slider), max = frames.length - 1, title = slider.lastElementChild;
  const input = make("input", { type: "range", max, value: max, ariaLabel: title.textContent });
  input.oninput = () => {
    frames.forEach((frame, number) => frame.classList.toggle("on", number === Number(input.value)));
    input.ariaValueText = frames[input.value].lastElementChild.textContent;
  };
  if (max) title.before(input);
});

all(".command").forEach((box) => box.append(makeButton("Copy", ({ target }) =>
  navigator.clipboard.writeText(box.firstElementChild.textContent).then(() => {
    target.textContent = "Copied";
  }))));

// Paper shows what is folded.
addEventListener("beforeprint", () => all("details:not(.chart details)").forEach((each) => {
  each.open = true;
}));

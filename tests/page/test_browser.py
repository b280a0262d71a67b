"""Pages in a browser: what they request, who can read them, what their script does, and paper."""

import pytest
from PIL import Image
from synthetic_runs import write_run

from toolkit.comparison.comparison import compare
from toolkit.comparison.record import read_record
from toolkit.page.writer import write_page, write_run_page

HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    "right \u202e to left \u200f line\u2028separator",
    "'\"&amp;`${1} {{ 7 * 7 }} __proto__",
    "a" * 3000,
]


def write_example(folder, number=0, names=("cat", "dog")):
    """A run with everything that a page can have."""
    (folder / "samples").mkdir(parents=True)
    (folder / "reports" / "test-100").mkdir(parents=True)
    for step in (50, 100):
        Image.new("RGB", (64, 64), (step, 80, 80)).save(folder / f"samples/step-{step}.png")
    Image.new("RGB", (90, 60), "red").save(folder / "reports/test-100/worst.png")
    records = [
        {"step": step, "kind": kind, "split": "validation", "loss": number + 9 / step}
        for step in range(10, 110, 10)
        for kind in ("train", "eval")
    ]
    records.append({"step": 40, "kind": "event", "event": "nonfinite", "count": 2})
    points = [[x / 10, x / 11, x / 12, x / 10] for x in range(1, 10)]
    low, high = 0.8 + number / 20, 0.9 + number / 20
    page = {
        "headline": [
            {"name": names[0], "value": 0.9, "low": 0.8, "high": 0.95, "direction": "max"},
            {"name": "distance", "value": 4.0, "floor": 1.0, "direction": "min", "text": names[1]},
        ],
        "pictures": [{"file": "worst.png", "title": names[0], "alt": names[1]}],
        "matrices": [{"title": names[0], "names": names, "counts": [[9, 1], [0, 9]]}],
        "tables": [
            {"title": names[1], "columns": ["class", "x"], "rows": [[names[0], 2], ["b", 10]]}
        ],
        "charts": [
            {"title": names[0], "lines": [{"name": names[1], "points": points, "draw": "dots"}]}
        ],
        "warnings": [{"text": names[0]}],
    }
    interval = {"low": low, "high": high, "level": 0.95}
    return write_run(
        str(folder),
        metrics={"accuracy": low + 0.05, "loss": 0.3},
        test={
            **{"reports": "reports/test-100", "page": page, "lines": [names[0]]},
            **{"directions": {"accuracy": "max"}, "intervals": {"accuracy": interval}},
        },
        records=records,
        network=names[number % 2],
    )


FACTS = {"seeds": 1, "reason": "", "step": 0, "cpu_secs": 0.0, "values": {"rate": 0.5}}
ROWS = [
    dict(FACTS, number=0, value=0.9, low=0.8, high=0.95, status="finished"),
    dict(FACTS, number=1, value=None, low=None, high=None, status="failed"),
]
SEARCH = {
    "study": {"metric": "accuracy"},
    "space": {"rate": "1 to 2"},
    "budget": "2 configurations",
    "intervals": "95 % intervals.",
    "rows": ROWS,
    "test": {"accuracy": {"value": 0.88, "low": 0.8, "high": 0.9}},
    "verdict": "On the test split, 0 is better (p = 0.1).",
    "again": "toolkit run",
}
KINDS = ("run", "comparison", "search", "hostile")


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """The address of a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    paths = {kind: folder / f"{kind}.html" for kind in KINDS}
    runs = [write_example(folder / f"r{number}", number) for number in range(3)]
    records = [read_record(run) for run in runs]
    hostile = write_example(folder / "hostile", 0, HOSTILE[:2])
    for number, text in enumerate(HOSTILE):
        write_run(
            str(folder / f"h{number}"), metrics={text: 1.0}, test={"lines": [text]}, network=text
        )
    write_run_page(runs[0], str(paths["run"]))
    write_page(str(paths["comparison"]), records, compare(records))
    write_page(str(paths["search"]), records, search=SEARCH)
    names = [hostile, *(str(folder / f"h{number}") for number in range(len(HOSTILE)))]
    records = [read_record(run, name) for run, name in zip(names, [*HOSTILE, "f"])]
    write_page(str(paths["hostile"]), records, compare(records))
    return {kind: path.as_uri() for kind, path in paths.items()}


def open_all(browser, address, **window):
    """Open a page with everything that it has."""
    browser.open(address, **window)
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_requests_nothing_reports_nothing_and_runs_no_text(browser, addresses, kind):
    open_all(browser, addresses[kind])
    browser.wait("return Array.from(document.images).every(image => image.complete)")
    assert browser.run("return Array.from(document.images).every(image => image.naturalWidth > 0)")
    assert browser.messages() == [] and browser.requests() == [addresses[kind]]
    assert browser.run("return window.broken") is None
    text = browser.run("return document.body.innerText")
    assert "49" not in text or kind != "hostile"
    assert not set(text) & set("\u202e\u200f\u2028")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_never_wider_than_its_window(browser, addresses, kind):
    for width in (1366, 360):
        open_all(browser, addresses[kind], width=width, height=740)
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_numbers_and_words_of_a_table_do_not_break(browser, addresses):
    browser.open(addresses["comparison"], width=360, height=740)
    script = """return Array.from(document.querySelectorAll('table td'), cell =>
        cell.getBoundingClientRect().height).every(height => height < 40)"""
    assert browser.run(script)
    script = """const box = document.querySelector('.scroll'); box.scrollLeft = 200;
        const first = box.querySelector('tbody th').getBoundingClientRect();
        return first.left - box.getBoundingClientRect().left"""
    assert browser.run(script) == pytest.approx(0, abs=1)


# [what is wrong, the element] of each element without a name, and of wrong references and levels.
FAULTS = """
const name = each => (each.getAttribute('aria-label') || each.getAttribute('alt')
    || each.textContent || '').trim();
const faults = [];
const check = (selector, word, isRight) => document.querySelectorAll(selector).forEach(each => {
  if (!isRight(each)) faults.push([word, each.outerHTML.slice(0, 200)]);
});
check('button, a, input, summary, img, [role], nav', 'no name', name);
check('section', 'no name', each => each.ariaLabel || each.querySelector('h2'));
check('table', 'no caption', each => each.caption && each.caption.textContent);
check('th', 'no scope', each => each.scope);
check('.chart', 'no table', each => each.querySelector('details table'));
check('.chart', 'no legend', each => each.querySelector('.legend li'));
check('[tabindex]', 'positive tabindex', each => each.tabIndex <= 0);
const ids = Array.from(document.querySelectorAll('[id]'), each => each.id);
if (new Set(ids).size < ids.length) faults.push(['equal ids', ids.join(' ')]);
let level = 0;
document.querySelectorAll('h1, h2, h3').forEach(each => {
  const next = Number(each.tagName[1]);
  if (next > level + 1) faults.push(['level of heading', each.textContent]);
  level = next;
});
if (document.querySelectorAll('h1').length !== 1) faults.push(['one h1', '']);
for (const landmark of ['[lang=en]', 'header', 'nav', 'main', 'footer'])
  if (!document.querySelector(landmark)) faults.push(['landmark', landmark]);
return faults;
"""


@pytest.mark.parametrize("kind", KINDS)
def test_everything_has_a_name_and_each_chart_has_its_table(browser, addresses, kind):
    open_all(browser, addresses[kind])
    assert browser.run(FAULTS) == []


# [contrast, text, colours] of each visible text whose contrast is below 4.5.
LOW_CONTRAST = """
const parse = text => {
  const parts = text.match(/[\\d.]+/g).map(Number);
  return parts.length > 3 ? parts : parts.concat(1);
};
const over = (top, base) => [0, 1, 2].map(i => top[i] * top[3] + base[i] * (1 - top[3]));
const ground = each => {
  if (!each) return [255, 255, 255];
  const colour = parse(getComputedStyle(each).backgroundColor);
  return colour[3] === 1 ? colour.slice(0, 3) : over(colour, ground(each.parentElement));
};
const light = colour => colour.map(value => value / 255).map(value =>
    value <= 0.03928 ? value / 12.92 : Math.pow((value + 0.055) / 1.055, 2.4))
    .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
const faults = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const each = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || each.closest('script, style, title')
      || !each.getClientRects().length || each.closest('.sr')) continue;
  const style = getComputedStyle(each);
  const base = ground(each);
  const ink = parse(each instanceof SVGElement ? style.fill : style.color);
  const values = [light(over(ink, base)), light(base)].sort((a, b) => a - b);
  const contrast = (values[1] + 0.05) / (values[0] + 0.05);
  if (contrast < 4.5) faults.push([contrast, walker.currentNode.textContent, style.color,
      String(base)]);
}
return faults;
"""


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_each_text_has_contrast(browser, addresses, kind, is_dark):
    open_all(browser, addresses[kind], is_dark=is_dark)
    assert browser.run(LOW_CONTRAST) == []
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 22, 26)" if is_dark else "rgb(255, 255, 255)")


def test_tab_reaches_the_skip_link_first_and_then_what_can_be_used(browser, addresses):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(addresses["run"])
    seen = []
    for _ in range(15):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        script = """const each = document.activeElement;
            return [each.className || each.tagName, getComputedStyle(each).outlineStyle]"""
        seen.append(browser.run(script))
    names = [name for name, _ in seen]
    assert names[0] == "skip" and {"A", "INPUT", "PRE", "BUTTON", "SUMMARY"} <= set(names)
    assert all(outline != "none" for _, outline in seen)


def test_the_first_screen_of_a_laptop_has_the_result(browser, addresses):
    browser.open(addresses["run"], width=1366, height=768)
    for selector in (".pill", ".worst", ".headline .value", ".glance img"):
        script = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
        assert browser.run(script, selector) < 500, selector


def test_a_column_sorts_the_table_by_its_numbers(browser, addresses):
    browser.open(addresses["run"])
    script = """const head = Array.from(document.querySelectorAll('th')).find(
            each => each.textContent === 'x');
        head.firstChild.click();
        const [body] = head.closest('table').tBodies;
        const rows = Array.from(body.rows, row => row.cells[1].textContent);
        return [rows, head.getAttribute('aria-sort')]"""
    assert browser.run(script) == [["2", "10"], "ascending"]
    assert browser.run(script) == [["10", "2"], "descending"]


def test_a_slider_shows_each_frame_and_paper_shows_all(browser, addresses):
    browser.open(addresses["run"])
    visible = """return Array.from(document.querySelectorAll('.slider img')).filter(
        image => image.offsetWidth).map(image => image.alt)"""
    assert browser.run(visible) == ["Samples by step, step 100"]
    browser.run("""const input = document.querySelector('.slider input');
        input.value = 0; input.dispatchEvent(new Event('input'))""")
    assert browser.run(visible) == ["Samples by step, step 50"]
    browser.open(addresses["run"], media="print")
    assert len(browser.run(visible)) == 2
    browser.run("dispatchEvent(new Event('beforeprint'))")
    folded = "details:not(.chart details):not([open])"
    assert browser.run("return document.querySelectorAll(arguments[0]).length", folded) == 0


def test_without_javascript_everything_is_there(browser, addresses):
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(addresses["run"])
        browser.command("DOM.getDocument", depth=-1)
        text = browser.command("DOMSnapshot.captureSnapshot", computedStyles=[])["strings"]
        again = "toolkit run --config runs/r0/config.json --run-dir runs/r0-again"
        assert {"Curves", "How it was made", again} <= set(text)
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)

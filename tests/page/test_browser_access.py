"""Who can read a page: names and roles, contrast, keyboard, phones, hostile texts, many rows."""

from __future__ import annotations

import pytest
from page_example import (
    PAGES,
    example_pictures,
    example_run,
    example_search,
    page_of,
    write_page,
)

# [what is wrong, the element] of each element without a name, and of wrong references and levels.
FAULTS = """
const name = each => (each.getAttribute('aria-label')
    || (each.getAttribute('aria-labelledby') || '').split(' ').filter(Boolean).map(id =>
        (document.getElementById(id) || {textContent: ''}).textContent).join(' ')
    || (each.labels && Array.from(each.labels, label => label.textContent).join(' '))
    || each.getAttribute('alt') || each.textContent || '').trim();
const faults = [];
const check = (selector, word, isRight) => document.querySelectorAll(selector).forEach(each => {
  if (!isRight(each)) faults.push([word, each.outerHTML.slice(0, 200)]);
});
check('button, a, input, summary, img, [role], section, nav', 'no name',
    each => each.getAttribute('role') === 'status' || name(each));
check('input', 'no label', each => each.getAttribute('aria-label') || each.labels.length);
check('table', 'no caption', each => each.caption && each.caption.textContent);
check('th', 'no scope', each => each.scope);
check('[aria-labelledby], [aria-describedby]', 'no target', each =>
    ['aria-labelledby', 'aria-describedby'].every(key => !each.hasAttribute(key)
        || document.getElementById(each.getAttribute(key))));
check('.chart:not(.wide)', 'no table', each => each.querySelector('details.points'));
check('.plot', 'no description', each => each.getAttribute('aria-label').includes('line chart'));
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
if (document.documentElement.lang !== 'en') faults.push(['lang', '']);
for (const landmark of ['header', 'nav', 'main', 'footer'])
  if (!document.querySelector(landmark)) faults.push(['landmark', landmark]);
return faults;
"""

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
  if (!walker.currentNode.textContent.trim() || each.closest('script, style, noscript')
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


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """The address of a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    return {
        kind: write_page(folder / f"{kind}.html", build(), example_pictures())
        for kind, build in PAGES.items()
    }


def open_all(browser, address, **window):
    """Open a page with everything that it has."""
    browser.open(address, **window)
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    browser.scroll_through()


@pytest.mark.parametrize("kind", PAGES)
def test_everything_has_a_name_and_each_chart_has_its_table(browser, addresses, kind):
    open_all(browser, addresses[kind])
    assert browser.run(FAULTS) == []


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("kind", PAGES)
def test_each_text_has_contrast(browser, addresses, kind, is_dark):
    open_all(browser, addresses[kind], is_dark=is_dark)
    assert browser.run(LOW_CONTRAST) == []


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_never_wider_than_its_window(browser, addresses, kind):
    for width in (1366, 360):
        open_all(browser, addresses[kind], width=width, height=740)
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_the_first_screen_of_a_laptop_has_the_result(browser, addresses):
    browser.open(addresses["run"], width=1366, height=640)
    for selector in (".status", ".headline", ".worst", ".glance svg, .glance img", ".command"):
        script = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
        assert browser.run(script, selector) <= 640, selector


def test_the_theme_button_overrides_the_system(browser, addresses):
    browser.open(addresses["run"])
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(ground) == "rgb(255, 255, 255)"
    for _ in range(2):
        browser.run("document.querySelector('#tools button').click()")
    assert browser.texts("#tools button")[0] == "Theme: dark"
    assert browser.run(ground) == "rgb(20, 22, 26)"
    browser.run("sessionStorage.clear()")


def test_tab_reaches_the_skip_link_first_and_then_what_can_be_used(browser, addresses):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(addresses["run"])
    seen = []
    for _ in range(40):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        seen.append(
            browser.run("""const each = document.activeElement, style = getComputedStyle(each);
            return [each.className || each.tagName, style.outlineStyle]""")
        )
    names = [name for name, _ in seen]
    assert names[0] == "skip"
    assert "plot" in names
    assert all(outline != "none" for _, outline in seen)


def test_motion_is_reduced_on_request(browser, addresses):
    browser.open(addresses["run"])
    assert browser.run("return getComputedStyle(document.documentElement).scrollBehavior") == (
        "smooth"
    )
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.command("Emulation.setEmulatedMedia", media="", features=features)
    assert browser.run("return getComputedStyle(document.documentElement).scrollBehavior") == "auto"


# -------------------------------------------------------------------------------- strange contents

HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    "line\u2028separator\u2029here",
    "right \u202e to left \u200f",
    "\u0000\u0007\u001b[31m",
    "'\"&amp;`${1}",
    "__proto__",
    "a" * 3000,
    "\U0001f600 \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d",
]


def hostile_run(number):
    """A run each of whose texts is one of those in `HOSTILE`."""
    run = example_run(number, 30, "\n".join(HOSTILE))
    for text in HOSTILE:
        run["options"].append({"name": text, "value": text, "origin": text})
        run["events"].append({"step": 10, "kind": text, "text": text})
    for text in HOSTILE[number::2]:
        run["curves"].append(dict(run["curves"][0], group=text, name=text, split=text))
    run["matrices"] = [{"title": t, "names": [t, t], "counts": [[1, 2], [3, 4]]} for t in HOSTILE]
    run["tables"] = [{"title": text, "columns": [text], "rows": [[text]]} for text in HOSTILE]
    run.update(
        again=HOSTILE[0], environment=[[t, t] for t in HOSTILE], data=dict(zip(HOSTILE, HOSTILE))
    )
    run["headline"][0]["name"] = run["worst"]["text"] = HOSTILE[1]
    return run


def test_texts_are_texts_whatever_they_say(browser, tmp_path):
    runs = [hostile_run(number) for number in range(2)]
    for page in (page_of(runs[:1]), page_of(runs, kind="comparison")):
        address = write_page(tmp_path / "page.html", page, example_pictures())
        open_all(browser, address, width=360, height=740)
        assert browser.run("return window.broken") is None
        assert browser.messages() == []
        assert browser.requests() == [address]
        assert browser.run("return document.documentElement.scrollWidth") <= 360
        assert (
            browser.run("return /[\\u202e\\u200f\\u2028]/.test(document.body.innerText)") is False
        )


def test_a_hundred_thousand_options_can_be_filtered(browser, tmp_path):
    options = [
        {"name": f"option_{n}", "value": n, "origin": "", "default": True} for n in range(100_000)
    ]
    page = page_of([example_run(options=options, events=[])])
    browser.open(write_page(tmp_path / "page.html", page, example_pictures()))
    rows = "return document.querySelectorAll('#options tbody tr').length"
    assert browser.run(rows) == 200
    browser.run("""const filter = document.querySelector('#options input');
        filter.value = 'option_99999'; filter.dispatchEvent(new Event('input'))""")
    assert browser.run(rows) == 1


EMPTY = {"id": 0, "name": "empty", "colour": 0}
STRANGE = {
    "nothing": [EMPTY],
    "several with nothing": [EMPTY, dict(EMPTY, id=1, name="other")],
    "a curve of gaps": [dict(EMPTY, curves=[{"name": "x", "steps": [1, 2], "values": [None] * 2}])],
    "one point": [dict(EMPTY, curves=[{"name": "x", "steps": [5], "values": [1e300]}])],
    "no point": [dict(EMPTY, curves=[{"name": "x", "steps": [], "values": []}])],
    "equal values": [dict(EMPTY, curves=[{"name": "x", "steps": [1, 2], "values": [0, 0]}])],
    "huge and tiny": [
        dict(EMPTY, curves=[{"name": "x", "steps": [1, 2], "values": [1.7e308, -1.7e308]}])
    ],
    "no pictures": [
        dict(
            EMPTY,
            pictures=[{"title": "x", "picture": 7}],
            sliders=[{"title": "x", "frames": [{"step": 1, "picture": 9}]}],
        )
    ],
    "a slider without frames": [dict(EMPTY, sliders=[{"title": "x", "frames": []}])],
    "an empty matrix": [
        dict(
            EMPTY,
            matrices=[{"names": [], "counts": []}],
            tables=[{}],
            charts=[{"title": "x", "lines": []}],
        )
    ],
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_run_may_have_next_to_nothing(browser, tmp_path, name):
    page = page_of(STRANGE[name], kind="comparison" if len(STRANGE[name]) > 1 else "run")
    address = write_page(tmp_path / "page.html", page)
    open_all(browser, address)
    browser.run("""document.querySelectorAll('.toolbar button').forEach(each => each.click());
        document.querySelectorAll('.plot').forEach(plot => ['ArrowRight', '+', '-', '0'].forEach(
            key => plot.dispatchEvent(new KeyboardEvent('keydown', {key, cancelable: true}))))""")
    browser.scroll_through()
    assert browser.messages() == []
    assert "NaN" not in browser.run("return document.querySelector('main').innerHTML")


def test_a_search_may_have_no_trial_yet(browser, tmp_path):
    page = example_search(1)
    page["search"].update(rows=[], importance=[], verdict=None, again=None)
    page["runs"] = []
    browser.open(write_page(tmp_path / "page.html", page))
    assert browser.messages() == []

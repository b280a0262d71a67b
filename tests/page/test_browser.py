"""A page in a browser: what it requests and reports, its numbers, curves, keys and pictures."""

import json

import numpy as np
import pytest
from page_example import (
    PAGES,
    example_pictures,
    example_run,
    example_search,
    page_of,
    write_page,
)
from synthetic_runs import write_run

from toolkit.page.writer import render_runs, write_run_page

FIRST_CHART = "document.querySelector('.chart .plot')"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """The address of a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    return {
        kind: write_page(folder / f"{kind}.html", build(), example_pictures())
        for kind, build in PAGES.items()
    }


def read_tables(browser, selector="table"):
    """Each table as a list of rows of texts."""
    script = """return Array.from(document.querySelectorAll(arguments[0]), table =>
        Array.from(table.rows, row => Array.from(row.cells, cell => cell.textContent)))"""
    return browser.run(script, selector)


def press(browser, key, element=FIRST_CHART, shift=False):
    """Press a key on an element, and wait for the next frame."""
    browser.run(
        f"{element}.focus(); {element}.dispatchEvent(new KeyboardEvent('keydown', "
        "{key: arguments[0], shiftKey: arguments[1], bubbles: true, cancelable: true}))",
        key,
        shift,
    )
    browser.driver.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")


def axis_texts(browser, chart=0):
    """The numbers on the axes of a chart."""
    script = """return Array.from(document.querySelectorAll('.chart')[arguments[0]]
        .querySelectorAll('.axes text'), text => text.textContent)"""
    return browser.run(script, chart)


# ---------------------------------------------------------------------------- requests and console


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_requests_nothing_and_reports_nothing(browser, addresses, kind):
    browser.open(addresses[kind])
    browser.scroll_through()
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    browser.scroll_through()
    browser.wait("return Array.from(document.images).every(image => image.complete)")
    assert browser.messages() == []
    assert browser.requests() == [addresses[kind]]


def test_the_browser_has_no_network(browser, addresses):
    browser.open(addresses["run"])
    script = "fetch('http://127.0.0.1:9/').then(() => arguments[0](''), e => arguments[0](e.name))"
    assert browser.driver.execute_async_script(script)
    assert browser.run("return navigator.onLine") is False


# ----------------------------------------------------------------------------------------- numbers


def test_the_numbers_are_those_of_the_run(browser, tmp_path):
    steps = range(10, 210, 10)
    records = [
        {"step": step, "kind": "train", "loss": 2 / step, "accuracy": 1 - 1 / step}
        for step in steps
    ]
    metrics = {"accuracy": 0.9625, "loss": 0.1234567}
    folder = write_run(str(tmp_path / "run"), metrics=metrics, records=records)
    path = tmp_path / "page.html"
    write_run_page(folder, str(path))
    browser.open(path.as_uri())
    browser.run("document.querySelectorAll('.points').forEach(each => { each.open = true; })")
    browser.wait("return document.querySelectorAll('.points table').length >= 2")
    rows = {}
    for table in read_tables(browser, "#curves .points table"):
        for row in table[1:]:
            rows.setdefault(int(row[0]), set()).update(map(np.float32, row[1:]))
    for record in records:  # metrics are numbers of 32 bits
        numbers = {np.float32(record["loss"]), np.float32(record["accuracy"])}
        assert numbers <= rows[record["step"]]
    quantities = dict(zip(browser.texts(".headline dt"), browser.texts(".headline .value")))
    assert float(quantities["accuracy"]) == 0.9625
    assert float(quantities["loss"]) == pytest.approx(0.1234567, rel=1e-3)


def test_values_that_are_not_finite_are_gaps_and_named_in_the_table(browser, tmp_path):
    run = example_run()
    run["curves"][0]["values"][3] = None
    address = write_page(tmp_path / "page.html", page_of([run]), example_pictures())
    browser.open(address)
    path = browser.wait(
        "return (document.querySelector('.line') || {getAttribute() {}}).getAttribute('d')"
    )
    assert path.count("M") == 2
    browser.run("document.querySelector('.points').open = true")
    rows = (
        browser.wait("return document.querySelectorAll('.points tbody tr').length")
        and (read_tables(browser, ".points table")[0])
    )
    assert rows[4][:2] == ["40", "nan"]


# ----------------------------------------------------------------------- cursor, zoom and controls


def test_keys_move_the_cursor_announce_its_values_and_zoom(browser, addresses):
    browser.open(addresses["run"])
    browser.wait("return document.querySelector('.line') !== null")
    press(browser, "ArrowRight")
    first = example_run()["curves"][0]["values"][0]
    text = browser.run("return document.getElementById('live').textContent")
    assert text.startswith("step 10; train ")
    assert f"{first:.4g}" in text
    press(browser, "End")
    assert browser.run("return document.getElementById('live').textContent").startswith(
        "step 1,250"
    )
    assert browser.run("return !document.querySelector('.tip').hidden")
    before = axis_texts(browser)
    press(browser, "+")
    assert axis_texts(browser) != before
    press(browser, "0")
    assert axis_texts(browser) == before


# --------------------------------------------------------------------------- pictures and printing


def test_a_slider_shows_each_frame(browser, addresses):
    browser.open(addresses["run"])
    browser.wait("return document.querySelector('.slider image') !== null")
    slider = "document.querySelector('.slider input')"
    assert (
        browser.run("return document.querySelector('.slider .frame').getAttribute('viewBox')")
        == "256 0 64 64"
    )
    browser.run(f"{slider}.value = 1; {slider}.dispatchEvent(new Event('input'))")
    frame = browser.run("""const svg = document.querySelector('.slider .frame');
        return [svg.getAttribute('viewBox'), svg.getAttribute('aria-label')]""")
    assert frame == ["64 0 64 64", "Samples, step 500"]


def test_printing_shows_all_pictures_and_opens_everything(browser, addresses):
    browser.open(addresses["run"])
    browser.run("""window.pictures = null;
        window.print = () => { window.pictures = Array.from(document.images, image =>
            image.complete && image.naturalWidth > 0).concat(Array.from(
            document.querySelectorAll('.frame image'), image =>
            image.classList.contains('loaded'))); };
        Array.from(document.querySelectorAll('#tools button'))
            .find(button => button.textContent === 'Print').click()""")
    pictures = browser.wait("return window.pictures")
    assert len(pictures) == 1 + 1 + 5  # the picture, the slider, and its strip on paper
    assert all(pictures)
    assert browser.run(
        "return Array.from(document.querySelectorAll('.plot svg')).every("
        "svg => svg.querySelector('.axes') !== null)"
    )


# ------------------------------------------------------------------------------- tables and search


def test_a_column_sorts_the_table(browser, addresses):
    browser.open(addresses["run"])
    script = """const box = document.querySelector('#tables table');
        box.querySelectorAll('.sort')[2].click();
        return [box.rows[1].cells[0].textContent,
            box.querySelectorAll('th')[2].getAttribute('aria-sort')]"""
    assert browser.run(script) == ["truck", "ascending"]
    assert browser.run(script) == ["plane", "descending"]


def test_the_filter_finds_options(browser, addresses):
    browser.open(addresses["run"])
    names = "return Array.from(document.querySelectorAll('#options tbody th'), e => e.textContent)"
    assert browser.run(names)[:2] == ["learning_rate", "network"]
    browser.run("""const filter = document.querySelector('#options input');
        filter.value = 'baseline.toml'; filter.dispatchEvent(new Event('input'))""")
    assert browser.run(names) == ["network"]


def test_the_test_value_of_a_search_is_apart_from_the_one_that_chose(browser, tmp_path):
    page = example_search()
    page["search"]["test"] = {"name": "accuracy", "value": 0.806, "low": 0.769, "high": 0.838}
    page["search"]["columns"][3]["name"] = "validation accuracy"
    browser.open(write_page(tmp_path / "page.html", page, example_pictures()))
    names = browser.texts(".headline dt")
    assert names[:2] == ["test accuracy", "validation accuracy"]
    assert browser.texts(".headline .leading .value") == ["0.806"]


def test_a_brush_by_keys_filters_the_trials(browser, addresses):
    browser.open(addresses["search"])
    browser.wait("return document.querySelector('.handle') !== null")
    rows = "return document.querySelectorAll('#trials tbody tr').length"
    assert browser.run(rows) == 24
    handle = "document.querySelectorAll('.axis:last-of-type .handle')[0]"
    for _ in range(10):
        press(browser, "ArrowUp", handle)
    left = browser.run(rows)
    assert 0 < left < 24
    values = [float(row[3]) for row in read_tables(browser, "#trials table")[0][1:]]
    low = browser.run(f"return {handle}.getAttribute('aria-valuetext')")
    assert min(values) >= float(low) - 0.001


# -------------------------------------------------------------------------------- size and without


def test_a_page_without_pictures_is_small(tmp_path):
    page = page_of([example_run(points=1000, pictures=[], sliders=[])])
    write_page(tmp_path / "page.html", page)
    assert (tmp_path / "page.html").stat().st_size < 300_000


def test_runs_with_several_seeds_are_compared(browser, tmp_path):
    folders = [
        write_run(
            str(tmp_path / f"run{number}"),
            metrics={"accuracy": 0.9 + number / 100},
            records=[
                {"step": step, "kind": "train", "loss": number + 1 / step} for step in (10, 20)
            ],
            seed=number % 2,
            learning_rate=[0.01, 0.02][number // 2],
        )
        for number in range(4)
    ]
    _, content = render_runs(folders, [None] * 4)
    path = tmp_path / "page.html"
    path.write_bytes(content)
    browser.open(path.as_uri())
    browser.scroll_through()
    rows = {row[0]: row[1:] for row in read_tables(browser, "#options-that-differ table")[0]}
    assert [float(text.split("flag")[0]) for text in rows["learning_rate"]] == [
        *(0.01, 0.01),
        *(0.02, 0.02),
    ]
    assert "(2 seeds)" in browser.texts("#curves .legend")[0]
    assert browser.messages() == []


def test_a_page_that_is_rewritten_is_read_again_until_that_is_switched_off(browser, tmp_path):
    page = page_of([example_run()], refresh=2)
    # The test moves the page's clock.
    source = "window.setInterval = (tick, millis) => Object.assign(window, {tick, millis})"
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=source)
    try:
        browser.open(write_page(tmp_path / "page.html", page, example_pictures()))
        assert browser.run("return window.millis") == 2000
        browser.run("window.isOld = true; window.tick()")
        browser.wait("return !window.isOld && document.querySelector('#tools button') !== null")
        browser.run("document.querySelector('#tools button').click()")
        assert browser.run("return window.tick()") is False
        assert browser.run("return sessionStorage.getItem('updates')") == "off"
        browser.run("sessionStorage.clear()")
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", **script)


def test_without_javascript_the_summary_is_there(browser, addresses):
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(addresses["run"])
        document = browser.command("DOM.getDocument", depth=-1)
        assert "runs/baseline" in json.dumps(document["root"])
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)

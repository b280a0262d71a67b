"""A page in a browser: what it requests and reports, its numbers, curves, keys and pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from page_example import (
    PAGES,
    example_comparison,
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


def test_one_point_is_a_number_and_a_picture_is_never_faint(browser, tmp_path):
    run = example_run()
    curve = dict(run["curves"][0], group="rate", name="rate", steps=[40], values=[0.00105])
    run["curves"].append(curve)
    browser.open(write_page(tmp_path / "page.html", page_of([run]), example_pictures()))
    tables = read_tables(browser, "#curves table")
    assert ["rate", "train", "40", "0.00105"] in [row for table in tables for row in table]
    assert "rate" not in browser.texts("#curves figcaption")
    script = """return Array.from(document.querySelectorAll('img, .frame image'),
        each => getComputedStyle(each).opacity)"""
    assert set(browser.run(script)) == {"1"}


def test_a_table_has_all_points_of_its_chart(browser, addresses):
    browser.open(addresses["run"])
    browser.run("document.querySelectorAll('.points').forEach(each => { each.open = true; })")
    browser.wait("return document.querySelectorAll('#curves .points table').length === 3")
    table = read_tables(browser, "#curves .points table")[0]
    curves = [curve for curve in example_run()["curves"] if curve["group"] == "loss"]
    assert table[0] == ["step", "train", "validation"]
    for column, curve in enumerate(curves, 1):
        points = [(int(row[0]), float(row[column])) for row in table[1:] if row[column]]
        assert points == list(zip(curve["steps"], curve["values"]))


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


def test_keys_move_the_cursor_and_its_values_are_announced(browser, addresses):
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


def test_keys_zoom_all_charts_and_show_all_again(browser, addresses):
    browser.open(addresses["run"])
    browser.wait("return document.querySelectorAll('.line').length >= 4")
    before = [axis_texts(browser, 0), axis_texts(browser, 1)]
    press(browser, "+")
    press(browser, "+")
    browser.wait("return document.querySelector('.axes text') !== null")
    assert axis_texts(browser, 0) != before[0]
    assert axis_texts(browser, 1) != before[1]
    press(browser, "ArrowRight", shift=True)
    press(browser, "0")
    assert [axis_texts(browser, 0), axis_texts(browser, 1)] == before


def test_a_drag_zooms(browser, addresses):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    browser.open(addresses["run"])
    browser.wait("return document.querySelector('.line') !== null")
    before = axis_texts(browser)
    plot = browser.driver.find_element(By.CSS_SELECTOR, ".chart .plot")
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", plot)
    actions = ActionChains(browser.driver).move_to_element_with_offset(plot, -50, 0)
    actions.click_and_hold().move_by_offset(100, 0).release().perform()
    browser.wait(
        "return arguments[0].join() !== Array.from(document.querySelectorAll("
        "'.chart')[0].querySelectorAll('.axes text'), text => text.textContent).join()",
        before,
    )


def test_smoothing_keeps_the_raw_line_and_has_no_bias_at_the_start(browser, addresses):
    browser.open(addresses["run"])
    browser.wait("return document.querySelector('.line') !== null")
    browser.run("""const slider = document.querySelector('.toolbar input');
        slider.value = 0.9; slider.dispatchEvent(new Event('input'))""")
    browser.wait("return document.querySelector('.raw') !== null")
    paths = browser.run("""const raw = document.querySelector('.raw');
        return [raw.getAttribute('d'), raw.nextSibling.getAttribute('d')]""")
    assert paths[0] != paths[1]
    assert paths[0].split("L")[0] == paths[1].split("L")[0]


def test_the_logarithmic_axis_has_powers(browser, addresses):
    browser.open(addresses["run"])
    browser.wait("return document.querySelector('.line') !== null")
    browser.run("""Array.from(document.querySelectorAll('.toolbar button'))
        .find(button => button.textContent === 'Logarithmic').click()""")
    browser.wait(
        "return Array.from(document.querySelector('.chart').querySelectorAll('.axes text')).some("
        "text => text.textContent === '0.2')"
    )
    assert {"0.2", "0.5", "1", "2"} <= set(axis_texts(browser))


def test_the_legend_hides_a_line(browser, addresses):
    browser.open(addresses["run"])
    browser.wait("return document.querySelector('.line') !== null")
    count = "return document.querySelector('.chart').querySelectorAll('.line').length"
    assert browser.run(count) == 2
    browser.run("document.querySelector('.legend button').click()")
    browser.wait(count + " === 1")


def test_seeds_are_a_band(browser, addresses):
    browser.open(addresses["comparison"])
    browser.scroll_through()
    assert browser.wait("return document.querySelectorAll('#curves .area').length > 0")
    legend = browser.run("return document.querySelector('#curves .legend').textContent")
    assert "(2 seeds)" in legend
    browser.run("""Array.from(document.querySelectorAll('#curves button'))
        .find(button => button.textContent === 'Seeds as bands').click()""")
    browser.wait("return document.querySelectorAll('#curves .legend')[0].children.length === 4")


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


def test_a_slider_plays(browser, addresses):
    browser.open(addresses["run"])
    text = "return document.querySelector('.slider output').textContent"
    # The page notes the steps itself: this process may look too late.
    browser.run("""window.seen = [];
        const output = document.querySelector('.slider output');
        new MutationObserver(() => window.seen.push(output.textContent))
            .observe(output, {childList: true, characterData: true, subtree: true});
        document.querySelector('.slider button').click()""")
    browser.wait("return document.querySelector('.slider button').textContent === 'Play'")
    steps = browser.run("return window.seen")
    assert steps[:2] == ["step 250", "step 500"] and steps[-1] == "step 1,250"
    assert browser.run(text) == "step 1,250"


def test_pictures_are_decoded_when_they_are_scrolled_to(browser, addresses):
    browser.open(addresses["run"])
    assert browser.run("return document.querySelector('.picture img').src") == ""
    browser.run("document.querySelector('.picture').scrollIntoView({behavior: 'instant'})")
    browser.wait("return document.querySelector('.picture img').naturalWidth === 560")


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


def test_paper_is_light_and_has_no_controls(browser, addresses):
    browser.open(addresses["run"], is_dark=True, media="print")
    style = browser.run("""const visible = selector =>
        Array.from(document.querySelectorAll(selector)).some(each =>
        each.offsetParent !== null && getComputedStyle(each).display !== 'none');
        return [getComputedStyle(document.body).color, visible('.toolbar'),
            visible('.controls')]""")
    assert style == ["rgb(0, 0, 0)", False, False]


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


def test_pairs_that_are_not_comparable_are_folded_and_empty_values_are_named(browser, tmp_path):
    page = example_comparison()
    page["comparison"]["options"].append(
        {"name": "columns", "values": [[], "", {}, None], "origins": [""] * 4}
    )
    browser.open(write_page(tmp_path / "page.html", page, example_pictures()))
    assert "1 not comparable" in browser.texts("details > summary")
    rows = [row for table in read_tables(browser) for row in table if row[0] == "columns"]
    assert rows == [["columns", *["none"] * 4]]


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


def test_a_matrix_of_a_hundred_classes_is_a_map_with_a_cursor(browser, tmp_path):
    from page_example import confusion

    names = [f"class {index}" for index in range(100)]
    run = example_run(matrices=[{"title": "Confusion", "names": names, "counts": confusion(100)}])
    browser.open(write_page(tmp_path / "page.html", page_of([run]), example_pictures()))
    press(browser, "ArrowDown", "document.querySelector('.map')")
    text = browser.run("return document.querySelector('.map-text').textContent")
    assert text.startswith("class 1 predicted as class 0: ")


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


def test_the_command_is_copied(browser, addresses):
    browser.open(addresses["run"])
    browser.run("document.querySelector('.command button').click()")
    text = "return document.querySelector('.command button').textContent"
    word = browser.wait(
        text + " !== 'Copy' && document.querySelector('.command button').textContent"
    )
    assert word in ("Copied", "Selected")
    assert browser.run("return document.getElementById('live').textContent") == word


def test_a_page_that_is_rewritten_is_read_again_until_that_is_switched_off(browser, tmp_path):
    page = page_of([example_run()], refresh=1)
    browser.open(write_page(tmp_path / "page.html", page, example_pictures()))
    browser.run("window.isOld = true")
    browser.wait("return document.readyState === 'complete' && !window.isOld")
    browser.wait("return document.querySelector('#tools button') !== null")
    browser.run("document.querySelector('#tools button').click()")
    assert browser.run("return sessionStorage.getItem('updates')") == "off"
    browser.run("sessionStorage.clear()")


def test_without_javascript_the_summary_is_there(browser, addresses):
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(addresses["run"])
        document = browser.command("DOM.getDocument", depth=-1)
        assert "runs/baseline" in json.dumps(document["root"])
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)

"""A page of a stranger's folder is correct, small and harmless, whatever the folder contains."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from synthetic_runs import write_run

from toolkit.comparison.record import read_record
from toolkit.page.pictures import Album, list_frames, list_pictures
from toolkit.page.sections import read_sections
from toolkit.page.writer import describe_page, render


def run_of(path="run", **values):
    """What the page of a run shows of it, which is written with these values, if there are any."""
    if values or not os.path.exists(os.path.join(path, "commits.jsonl")):
        write_run(path, **values)
    return describe_page([read_record(path)])["run"]


def shown(run):
    """The pictures of a run, those of sliders last."""
    frames = [frame for slider in run["sliders"] for frame in slider["frames"]]
    return [each["picture"] for each in [*run["pictures"], *frames]]


def save(path, size=(8, 8), mode="L", **settings):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    Image.new(mode, size).save(path, **settings)


STRANGE = [
    *(None, 1, "text", [], [1], {}, True, float("nan"), [[]], {"a": 1}),
    *({"name": 1}, {"name": "x", "value": "1"}, {"name": "x", "value": 10**400}, [None] * 10_000),
    *({"counts": [[1]], "names": ["a", "b"]}, {"counts": [[-1]], "names": ["a"]}),
    *({"columns": ["a"], "rows": [1]}, {"lines": [{"points": [[1]]}]}, {"file": ["x"]}),
]


@pytest.mark.parametrize("value", STRANGE)
def test_any_value_of_a_plugin_is_read(here, value):
    keys = ["headline", "picture", "pictures", "matrices", "tables", "charts", "warnings", "advice"]
    test = {"reports": "reports/test-1"}
    for sections in [value, dict.fromkeys(keys, value), dict.fromkeys(keys, [value])]:
        read_sections(sections)
        write_run("run", metrics={"loss": 1.0}, test=dict(test, page=sections))
        render(describe_page([read_record("run")]))


def test_what_is_left_out_of_a_plugins_value_is_noted():
    sections = read_sections({"tables": [{"columns": ["a"], "rows": [[1]]}, 7], "charts": 3})
    assert [len(table["rows"]) for table in sections["tables"]] == [1]
    assert sections["notes"] == [
        "Of 'tables' of the plugin, 1 left out.",
        "'charts' of the plugin is no list, and is left out.",
    ]


def test_long_texts_and_tables_are_cut():
    rows = [["x" * 10_000, 1, 2]] * 10_000
    (table,) = read_sections({"tables": [{"columns": ["a", "b"], "rows": rows}]})["tables"]
    assert len(table["rows"]) == 200 and table["note"] == "200 of 10,000 rows"
    cells = table["rows"][0]["cells"]
    assert len(cells) == 2 and len(cells[0]["text"]) == 300


def test_records_that_are_damaged_or_huge_are_left_out(here):
    write_run("run")
    with open("run/metrics.jsonl", "wb") as file:
        file.write(b'{"step": 1, "kind": "train", "loss": 1.5}\n\xff\xfe\n[1]\n{"step": "x"}\n')
        file.write(b'{"step": -1, "loss": 1}\n{"step": 2, "loss": 1e999, "kind": "train"}\n')
        file.write(b'{"step": 3, "kind": "train", "loss": true, "a": [1], "b": "text"}\n')
        file.write(b'{"step": 4, "kind": "train", "loss": "' + b"9" * 2_000_000 + b'"}\n')
        file.write(b'{"step": 5, "kind": "train", "loss": 2.5}\n{"step": 6, "lo')
    (curve,) = run_of()["curves"]
    assert list(curve.steps) == [1, 2, 5] and curve.points() == [(1, 1.5), (5, 2.5)]


def test_a_pipe_in_the_place_of_records_does_not_block(here):
    write_run("run")
    os.mkfifo("run/metrics.jsonl")
    os.mkfifo("run/speed.jsonl")
    assert run_of()["curves"] == []


@pytest.mark.parametrize(
    "name",
    ["../secret.png", "/etc/passwd", "a/../../secret.png", "", "a\0b", "link.png", "missing"],
)
def test_a_picture_outside_the_reports_is_left_out(here, name):
    save("secret.png")
    save("run/reports/test-1/own.png")
    os.symlink(os.path.abspath("secret.png"), "run/reports/test-1/link.png")
    pictures = [{"file": name}, {"file": "own.png", "title": "Own"}]
    test = {"reports": "reports/test-1", "page": {"pictures": pictures}}
    run = run_of(metrics={"loss": 1.0}, test=test)
    assert [picture["title"] for picture in run["pictures"]] == ["Own"] and run["notes"]


@pytest.mark.parametrize("page, titles", [({}, ["own.png"]), ({"pictures": []}, [])])
def test_all_pictures_of_the_report_are_shown_unless_the_plugin_chose_none(here, page, titles):
    save("run/reports/test-1/own.png")
    test = {"reports": "reports/test-1", "page": page}
    run = run_of(metrics={"loss": 1.0}, test=test)
    assert [picture["title"] for picture in run["pictures"]] == titles


@pytest.mark.parametrize(
    "place", ["/etc", "../other", "reports/../../other", 7, "samples", "reports"]
)
def test_the_place_of_reports_is_inside_the_run(here, place):
    save("other/secret.png")
    run = run_of(metrics={"loss": 1.0}, test={"reports": place})
    assert run["pictures"] == []


def test_broken_and_huge_pictures_are_left_out_with_a_note(here):
    save("run/samples/step-1.png", (6_000, 5_001), "1")
    (here / "run/samples/step-2.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    save("run/samples/step-3.png")
    run = run_of()
    assert [frame["step"] for frame in run["sliders"][0]["frames"]] == [3]
    assert run["notes"][0] == "samples/step-1.png is left out: it has more than 30 megapixels."
    assert run["notes"][1].startswith("samples/step-2.png is left out: it is no picture")


def write_noise(path, height, width):
    """Save a PNG of random grey pixels, one byte each, and return its bytes."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pixels = np.random.RandomState(0).randint(0, 256, (height, width), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return Path(path).read_bytes()


def test_files_up_to_a_limit_have_their_own_bytes_on_the_page(here):
    data = write_noise("run/samples/b.png", 300, 300)
    assert 80_000 < len(data) < 100_000
    run = run_of()
    assert [picture.data for picture in shown(run)] == [data] and run["notes"] == []
    write_noise("run/samples/a.png", 400, 400)
    assert [picture.data == data for picture in shown(run_of())] == [False, True]


@pytest.mark.parametrize("status, count", [("diverged", 1), ("stopped", 0), ("failed", 0)])
def test_pictures_of_later_evaluations_are_no_part_of_how_a_run_ended(here, status, count):
    save("run/reports/autopsy-100/batch.png")
    write_run("run", manifest={"status": status})
    before = render(describe_page([read_record("run")]))
    assert before.count(b"<img") == count
    save("run/reports/validation-100/mistakes.png")
    save("run/reports/autopsy-50/batch.png")
    assert render(describe_page([read_record("run")])) == before


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_pictures_of_any_mode_are_shown(here, mode):
    save(f"run/samples/a.{'jpg' if mode == 'CMYK' else 'png'}", (2000, 10), mode)
    assert [picture.width for picture in shown(run_of())] == [1400]


def test_many_frames_are_spread_over_the_steps(here):
    for step in range(100):
        save(f"run/samples/grid-{step:04}.png", (70, 20), "RGB")
    (slider,) = run_of()["sliders"]
    steps = [frame["step"] for frame in slider["frames"]]
    assert len(steps) == 40 and (steps[0], steps[-1]) == (0, 99)


def test_pictures_beyond_the_bytes_of_a_page_are_left_out(here):
    write_noise("run/samples/a.png", 300, 300)
    album = Album("run", is_one=False)
    assert album.add_file("samples/a.png", "A", "") is not None
    assert album.add_file("samples/a.png", "A", "") is None
    assert "at most 120,000 bytes" in album.notes[0]


def test_frames_are_grouped_by_the_rest_of_their_names(here):
    for name in ("a-10.png", "a-9.png", "b/x_1.png", "plain.png", "step-5.gif", "7.png"):
        save("run/samples/" + name)
    assert list_frames(list_pictures("run", "samples")) == {
        "samples/": [(7, "samples/7.png")],
        "samples/a": [(9, "samples/a-9.png"), (10, "samples/a-10.png")],
        "samples/b/x": [(1, "samples/b/x_1.png")],
    }


def test_a_large_picture_of_16_bits_has_its_greys(here):
    save("run/samples/a.png")
    Image.fromarray(np.full((10, 2000), 128 * 257, np.uint16)).save("run/samples/a.png")
    (picture,) = shown(run_of())
    with Image.open(io.BytesIO(picture.data)) as image:
        assert image.convert("L").getextrema() == (128, 128)

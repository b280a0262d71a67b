"""Mutated folders of runs in `toolkit runs` and `toolkit compare`: a row or a sentence, always."""

import json
import os

import numpy as np
import pytest
from fuzz_fixtures import EXAMPLES, fuzz, run_and_check
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutants, odd_json, text_of
from synthetic_runs import Session, write_run

NPZ = os.path.join("reports", "test-100", "examples.npz")
FILES = ["config.json", "manifest.json", "commits.jsonl", "metrics.jsonl", NPZ]
CODES = (0, 2, 5)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The path of a folder with two runs; -> bytes by the name of a file of the second one."""
    root = tmp_path_factory.mktemp("comparing")
    intervals = {"accuracy": {"low": 0.8, "high": 1.0, "level": 0.95, "method": "Wilson"}}
    test = {"directions": {"accuracy": "max"}, "intervals": intervals, "examples": 50}
    test.update(reports="reports/test-100", depends_on={"accuracy": {"samples": 3}})
    test["page"] = {"headline": [{"name": "accuracy", "value": 0.9}]}
    records = [{"step": 20, "kind": "train", "loss": 1.0}]
    for name, rate in (("a", 0.1), ("b", 0.2)):
        path = write_run(
            str(root / name),
            [Session(0, {50: "x"}), Session(50, {100: name})],
            metrics={"accuracy": 0.9, "loss": 0.1},
            test=test,
            records=records,
            learning_rate=rate,
        )
        os.makedirs(os.path.join(path, "reports", "test-100"))
        np.savez(os.path.join(path, NPZ), accuracy=np.arange(50) < 45)
    contents = {name: (root / "b" / name).read_bytes() for name in FILES}
    return str(root), contents


def check(root, name, content, original):
    """Run both commands while a file of run b has other contents."""
    path = os.path.join(root, "b", name)
    with open(path, "wb") as file:
        file.write(content)
    try:
        listing = run_and_check("runs", root)
        assert len(listing.out.splitlines()) in (2, 3)
        assert "runs" in json.loads(run_and_check("runs", root, "--json").out)
        pair = [os.path.join(root, "a"), os.path.join(root, "b")]
        run_and_check("compare", *pair, codes=CODES)
    finally:
        with open(path, "wb") as file:
            file.write(original)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(fuzz, max_examples=max(2, EXAMPLES // 4))
def test_mutated_files_are_a_row_or_a_sentence(runs, name, data):
    root, contents = runs
    check(root, name, data.draw(mutants(contents[name])), contents[name])


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
@given(data=st.data())
@settings(fuzz, max_examples=max(2, EXAMPLES // 2))
def test_other_values_in_json_are_a_row_or_a_sentence(runs, name, data):
    root, contents = runs
    values = data.draw(odd_json(contents[name], max_changes=4))
    check(root, name, text_of(values).encode("utf-8"), contents[name])


@given(text=st.text(max_size=30) | st.from_regex(r"[a-z_]{1,8}(=|<|~|!=)\w{0,5}", fullmatch=True))
@fuzz
def test_any_condition_is_understood_or_refused(runs, text):
    argument = text.replace("\0", "")
    run_and_check("runs", runs[0], f"--where={argument}", codes=(0, 2))
    run_and_check("runs", runs[0], f"--sort={argument}", codes=(0, 2))

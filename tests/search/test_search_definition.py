"""The definition of a study: JSON both ways, and what differs between two."""

import json

import pytest
from search_fixtures import RATE, small_definition

from toolkit.errors import CheckpointError, UsageError
from toolkit.search.definition import (
    Budget,
    Configuration,
    Dimension,
    Trial,
    TrialResult,
    find_differences,
    read_definition,
    write_definition,
)


def test_each_record_is_a_json_value_and_back():
    trial = Trial(Configuration(3, {"learning_rate": 1e-3, "freeze": ["a", "b"]}), 2, 1, 90)
    result = TrialResult(3, 2, 1, "paused", "", 0.5, 30, 1.5, 2.5, "trials/0003-s2")
    for record in (small_definition(), trial, result, result._replace(low=0.4, high=0.6)):
        assert type(record).from_json(json.loads(json.dumps(record.as_json()))) == record


def test_a_definition_is_written_once(tmp_path):
    assert read_definition(str(tmp_path)) is None
    write_definition(str(tmp_path), small_definition())
    write_definition(str(tmp_path), small_definition(threads=4))
    assert read_definition(str(tmp_path)) == small_definition()
    with pytest.raises(UsageError, match=r"trials was 4, now 5"):
        write_definition(str(tmp_path), small_definition(trials=5))


def test_differences_have_the_names_that_a_user_has_for_them():
    other = small_definition(
        budget=Budget("examples", 3e4), flags={"network": "cnn"}, space=(RATE._replace(high=1),)
    )
    text = "; ".join(find_differences(small_definition(), other))
    assert "budget was 100 steps per trial, now 30,000 examples per trial" in text
    assert "--network was mlp, now cnn" in text
    assert "--vary batch_size was" in text and "now not set" in text


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 9}', "{"])
def test_a_damaged_definition_gives_one_sentence(tmp_path, text):
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(CheckpointError, match="study.json"):
        read_definition(str(tmp_path))


@pytest.mark.parametrize(
    "dimension, values",
    [
        (Dimension("a", "int", 1, 4, 1), [1, 2, 3, 4]),
        (Dimension("a", "int", 1, 9, 4), [1, 5, 9]),
        (Dimension("a", "int", 1, 3, is_log=True), [1, 2, 3]),
        (Dimension("a", "float", 0.0, 0.3, 0.1), [0.0, 0.1, 0.2, 0.3]),
        (Dimension("a", "choice", choices=("x", None)), ["x", None]),
        (Dimension("a", "float", 0.0, 1.0), None),
    ],
)
def test_the_values_of_a_dimension(dimension, values):
    assert values == (dimension.values if values is None else list(dimension.values))
    assert dimension.size == (float("inf") if values is None else len(values))

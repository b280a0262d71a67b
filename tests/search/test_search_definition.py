"""The definition of a study: JSON both ways, and what differs between two."""

import pytest
from fake_trials import open_study
from search_fixtures import RATE, small_definition

from toolkit.errors import CheckpointError, UsageError
from toolkit.search.definition import Budget, Configuration, Dimension
from toolkit.search.study import read_study


def test_what_is_written_of_a_study_is_read(tmp_path):
    assert read_study(str(tmp_path)) is None
    definition = small_definition()
    configuration = Configuration(0, {"learning_rate": 1e-3, "batch_size": 32}, 90)
    study = open_study(definition, tmp_path)
    study.configurations[0] = configuration
    study.write()
    assert read_study(str(tmp_path)) == (definition, {0: configuration})


def test_differences_have_the_names_that_a_user_has_for_them(tmp_path):
    open_study(small_definition(), tmp_path)
    other = small_definition(
        budget=Budget("examples", 3e4), options={"network": "cnn"}, space=(RATE._replace(high=1),)
    )
    with pytest.raises(UsageError) as caught:
        open_study(other, tmp_path)
    text = caught.value.message
    assert "budget was 100 steps per trial, now 30,000 examples per trial" in text
    assert "--network was mlp, now cnn" in text
    assert "normalize was true, now not set" in text
    assert "--vary batch_size was" in text and "now not set" in text
    open_study(small_definition(threads=8), tmp_path)  # which do not count


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": 1}', "{"])
def test_a_damaged_definition_gives_one_sentence(tmp_path, text):
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(CheckpointError, match="study.json"):
        read_study(str(tmp_path))


@pytest.mark.parametrize(
    "dimension, values",
    [
        (Dimension("a", "int", 1, 4, 1), [1, 2, 3, 4]),
        (Dimension("a", "int", 1, 9, 4), [1, 5, 9]),
        (Dimension("a", "int", 1, 3, is_log=True), [1, 2, 3]),
        (Dimension("a", "float", 0.0, 0.3, 0.1), [0.0, 0.1, 0.2, 0.3]),
        # Of twelve digits, but within the range, outside of which no value is read.
        (Dimension("a", "float", 1 / 3 + 1e-15, 2 / 3, 0.2), [1 / 3 + 1e-15, 0.533333333333]),
        (Dimension("a", "float", 0.0, 2 / 3, 1 / 3), [0.0, 0.333333333333, 2 / 3]),
        (Dimension("a", "choice", choices=("x", None)), ["x", None]),
        (Dimension("a", "float", 0.0, 1.0), None),
    ],
)
def test_the_values_of_a_dimension(dimension, values):
    assert values == (dimension.values if values is None else list(dimension.values))
    assert dimension.size == (float("inf") if values is None else len(values))
    assert all(map(dimension.has, values or ()))

"""The states of hooks are equal after saving and loading."""

import os

import numpy as np
import pytest

from toolkit.errors import CheckpointError, ToolkitError
from toolkit.training.hooks import hook_state


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model.ckpt-2")


def save_and_load(path, states):
    """Save the states of hooks; return what is loaded from the file."""
    hook_state.save(path, states)
    return hook_state.load(path)


STATES = {
    "evaluation": {"best": {"step": 2, "value": 0.1}, "waited": 3, "none": None},
    "plugin:Hook": {"text": "ä\0\ud800", "list": [1, [2.5, True]], "": "", "x": 0.1 + 0.2},
    "infinite": {"best": float("-inf"), "row": [float("inf")]},
}
FORMAT = {"index": {"array0": 1, "array": [2], "value": {"array": 3}}}  # names that files use
SCALARS = {"x": np.float32(0.5), "n": np.int64(3), "t": np.bool_(True), "inf": np.float32("inf")}


@pytest.mark.parametrize(
    "states, expected",
    [
        (STATES, STATES),
        (FORMAT, FORMAT),
        ({"h": SCALARS}, {"h": {"x": 0.5, "n": 3, "t": True, "inf": float("inf")}}),
        ({"h": {"pair": (1, 2)}}, {"h": {"pair": [1, 2]}}),
    ],
    ids=["values", "names of the format", "numpy scalars", "tuples"],
)
def test_values_are_loaded_as_numbers_texts_lists_and_dicts(path, states, expected):
    assert save_and_load(path, states) == expected


@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5, np.float32),
        np.array([np.nan, -0.0, np.inf], np.float32),
        np.zeros((0, 3), np.uint8),
        np.array(["a", "bc"]),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
    ],
)
def test_arrays_have_the_same_type_shape_and_bits_after_saving_and_loading(path, array):
    loaded = save_and_load(path, {"h": {"array": array}})["h"]["array"]
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    assert loaded.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "state, fault",
    [
        ({"x": np.array([{}, None])}, "keeps 'x', which holds an array of objects"),
        ({"x": {1, 2}}, "keeps 'x', which holds a set"),
        ({"x": {"a": {1: 2}}}, "keeps 'x', which holds a dictionary with keys that are not text"),
        ({"x": [np.zeros(2)]}, "keeps 'x', which holds a ndarray"),
        ({"x": np.complex64(1j)}, "keeps 'x', which holds a complex"),
        ({3: 5}, "returned the key 3 from 'state'"),
        ([1], "returned a list from 'state'"),
    ],
)
def test_what_a_file_cannot_restore_is_refused_before_anything_is_written(path, state, fault):
    with pytest.raises(ToolkitError, match=f"^Session hook 'h' {fault}"):
        hook_state.save(path, {"h": state})
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"nonsense", b"\x93NUMPY\1\0"])
def test_a_damaged_file_is_an_error_and_a_missing_one_has_no_states(path, content):
    assert hook_state.load(path) == {}
    with open(path + hook_state.ENDING, "wb") as file:
        file.write(content)
    with pytest.raises(CheckpointError, match="model.ckpt-2.hooks.npz: not readable"):
        hook_state.load(path)

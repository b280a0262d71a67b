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


def test_a_checkpoint_without_a_state_file_has_no_states(path):
    assert hook_state.load(path) == {}


def test_values_are_equal_after_saving_and_loading(path):
    states = {
        "evaluation": {"best": {"step": 2, "value": 0.1}, "waited": 3, "none": None},
        "plugin:Hook": {"text": "ä\0\ud800", "list": [1, [2.5, True]], "": ""},
    }
    assert save_and_load(path, states) == states


def test_a_float_has_the_same_bits_after_saving_and_loading(path):
    assert save_and_load(path, {"h": {"x": 0.1 + 0.2}}) == {"h": {"x": 0.30000000000000004}}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
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


def test_names_that_the_file_format_uses_are_allowed(path):
    states = {"index": {"array0": 1, "array": [2], "value": {"array": 3}}}
    assert save_and_load(path, states) == states


def test_arrays_of_several_hooks_with_equal_names_are_distinct(path):
    loaded = save_and_load(path, {"a": {"x": np.array([1])}, "b": {"x": np.array([2]), "y": 3}})
    assert (loaded["a"]["x"].tolist(), loaded["b"]["x"].tolist(), loaded["b"]["y"]) == ([1], [2], 3)


def test_numpy_scalars_become_python_numbers_and_tuples_become_lists(path):
    states = {"h": {"x": np.float32(0.5), "n": np.int64(3), "t": np.bool_(True), "pair": (1, 2)}}
    assert save_and_load(path, states) == {"h": {"x": 0.5, "n": 3, "t": True, "pair": [1, 2]}}


def test_numbers_that_are_not_finite_are_saved_and_loaded(path):
    loaded = save_and_load(
        path, {"h": {"best": float("-inf"), "row": [float("nan"), np.float32("inf")]}}
    )
    assert loaded["h"]["best"] == float("-inf") and loaded["h"]["row"][1] == float("inf")
    assert loaded["h"]["row"][0] != loaded["h"]["row"][0]


def test_the_same_states_have_the_same_bytes(path, tmp_path):
    states = {"h": {"x": np.arange(3), "n": 1}}
    hook_state.save(path, states)
    hook_state.save(str(tmp_path / "other"), states)
    one, other = (tmp_path / (name + hook_state.ENDING) for name in ("model.ckpt-2", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_arrays_of_objects_are_refused_before_anything_is_written(path):
    with pytest.raises(ToolkitError, match="hook 'h' keeps 'x', which is an array of objects"):
        hook_state.save(path, {"h": {"x": np.array([{}, None])}})
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize(
    "value, description",
    [
        ({1, 2}, "a set"),
        ([b"x"], "a bytes"),
        ({"a": {1: 2}}, "a dictionary with keys that are not text"),
        ([np.zeros(2)], "a ndarray"),
        (np.complex64(1j), "a complex"),
    ],
)
def test_values_that_json_cannot_restore_are_refused_before_anything_is_written(
    path, value, description
):
    with pytest.raises(ToolkitError, match=f"hook 'h' keeps 'x', which holds {description}"):
        hook_state.save(path, {"h": {"x": value}})
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"nonsense", b"\x93NUMPY\1\0"])
def test_a_damaged_file_is_an_error(path, content):
    with open(path + hook_state.ENDING, "wb") as file:
        file.write(content)
    with pytest.raises(CheckpointError, match="model.ckpt-2.hooks.npz: not readable"):
        hook_state.load(path)


@pytest.mark.parametrize("index", ["[]", '{"h": 3}', '{"h": {"x": 3}}', "[" * 100000])
def test_an_index_of_another_form_is_an_error(path, index):
    with open(path + hook_state.ENDING, "wb") as file:
        np.savez(file, index=np.frombuffer(index.encode(), np.uint8))
    with pytest.raises(CheckpointError, match="not readable"):
        hook_state.load(path)

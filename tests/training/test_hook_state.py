"""What hooks remember comes back as it was saved."""

import os

import numpy as np
import pytest

from toolkit.errors import CheckpointError, ToolkitError
from toolkit.training.hooks import hook_state


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model.ckpt-2")


def back(path, kept):
    hook_state.save(path, kept)
    return hook_state.load(path)


def test_nothing_was_kept_where_there_is_no_file(path):
    assert hook_state.load(path) == {}


def test_values_come_back_as_they_were(path):
    kept = {
        "evaluation": {"best": {"step": 2, "value": 0.1}, "waited": 3, "none": None},
        "plugin:Hook": {"text": "ä\0\ud800", "list": [1, [2.5, True]], "": ""},
    }
    assert back(path, kept) == kept


def test_a_float_comes_back_to_the_bit(path):
    assert back(path, {"h": {"x": 0.1 + 0.2}}) == {"h": {"x": 0.30000000000000004}}


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
def test_arrays_come_back_with_their_type_shape_and_bits(path, array):
    found = back(path, {"h": {"array": array}})["h"]["array"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


def test_names_that_look_like_the_files_own_are_only_names(path):
    kept = {"index": {"array0": 1, "array": [2], "value": {"array": 3}}}
    assert back(path, kept) == kept


def test_arrays_of_several_hooks_are_told_apart(path):
    found = back(path, {"a": {"x": np.array([1])}, "b": {"x": np.array([2]), "y": 3}})
    assert (found["a"]["x"].tolist(), found["b"]["x"].tolist(), found["b"]["y"]) == ([1], [2], 3)


def test_scalars_of_numpy_become_python_s_and_tuples_lists(path):
    kept = {"h": {"x": np.float32(0.5), "n": np.int64(3), "t": np.bool_(True), "pair": (1, 2)}}
    assert back(path, kept) == {"h": {"x": 0.5, "n": 3, "t": True, "pair": [1, 2]}}


def test_numbers_that_are_not_finite_come_back(path):
    found = back(path, {"h": {"best": float("-inf"), "row": [float("nan"), np.float32("inf")]}})
    assert found["h"]["best"] == float("-inf") and found["h"]["row"][1] == float("inf")
    assert found["h"]["row"][0] != found["h"]["row"][0]


def test_the_same_states_have_the_same_bytes(path, tmp_path):
    kept = {"h": {"x": np.arange(3), "n": 1}}
    hook_state.save(path, kept)
    hook_state.save(str(tmp_path / "other"), kept)
    one, other = (tmp_path / (name + hook_state.ENDING) for name in ("model.ckpt-2", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_arrays_of_objects_are_refused_before_anything_is_written(path):
    with pytest.raises(ToolkitError, match="hook 'h' keeps 'x', which is an array of objects"):
        hook_state.save(path, {"h": {"x": np.array([{}, None])}})
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize(
    "value, what",
    [
        ({1, 2}, "a set"),
        ([b"x"], "a bytes"),
        ({"a": {1: 2}}, "a dictionary with keys that are not text"),
        ([np.zeros(2)], "a ndarray"),
        (np.complex64(1j), "a complex"),
    ],
)
def test_values_that_json_does_not_give_back_are_refused_before_anything_is_written(
    path, value, what
):
    with pytest.raises(ToolkitError, match=f"hook 'h' keeps 'x', which holds {what}"):
        hook_state.save(path, {"h": {"x": value}})
    assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"nonsense", b"\x93NUMPY\1\0"])
def test_a_damaged_file_is_told(path, content):
    with open(path + hook_state.ENDING, "wb") as file:
        file.write(content)
    with pytest.raises(CheckpointError, match="model.ckpt-2.hooks.npz: not readable"):
        hook_state.load(path)


@pytest.mark.parametrize("index", ["[]", '{"h": 3}', '{"h": {"x": 3}}', "[" * 100000])
def test_an_index_of_another_form_is_told(path, index):
    with open(path + hook_state.ENDING, "wb") as file:
        np.savez(file, index=np.frombuffer(index.encode(), np.uint8))
    with pytest.raises(CheckpointError, match="not readable"):
        hook_state.load(path)

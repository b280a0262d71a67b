"""Paths that TensorFlow would take for patterns, or refuse."""

import os
import shutil

import pytest
from file_fixtures import read_json

from toolkit import files, tf
from toolkit.errors import CheckpointError
from toolkit.files import plain_folder, plain_path
from toolkit.storage.checkpoint_reader import fingerprint

NOT_UTF8 = os.fsdecode(b"not-\xff-utf8")
NAMES = [("lr[1]", True), ("a\\b", True), ("a*b?c", False), (NOT_UTF8, True)]


@pytest.fixture
def folder(here):
    """A folder whose name has all that is special in patterns."""
    path = here / "[2026] a*b?c\\d [1]"
    path.mkdir()
    return path


@pytest.mark.parametrize("name, has_descriptors", NAMES, ids=ascii)
def test_any_other_path_gets_a_plain_name_in_the_block(
    tmp_path, monkeypatch, name, has_descriptors
):
    folder = tmp_path / name
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("all names of this file system are UTF-8")
    if not has_descriptors:
        monkeypatch.setattr(files, "_DESCRIPTORS", str(folder / "none"))
    (folder / "file").write_text("content")
    with plain_path(str(folder / "file")) as path, plain_folder(str(folder)) as inner:
        assert not set(path) & set("[]*?\\") and path.encode("utf-8")
        assert tf.gfile.Glob(path) == [path]
        assert os.listdir(inner) == ["file"]
    assert not os.path.exists(path)
    with plain_path(str(tmp_path / "model.ckpt-1")) as path:
        assert path == str(tmp_path / "model.ckpt-1")


def test_a_run_that_is_moved_to_such_a_folder_is_intact_trains_on_and_is_read(
    cli, trained, folder, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(folder))
    shutil.move(str(trained / "run"), str(folder / "run"))
    shutil.move(str(trained / "bars.npz"), str(folder / "bars.npz"))
    run = folder / "run"
    assert cli("resume", run, "--steps", 8).code == 0
    for command in (["verify", "--replay", "6:"], ["doctor"], ["evaluate"]):
        assert cli(*command, run).code == 0
    assert cli("export", run, folder / "out[1]").code == 0
    assert read_json(run, "manifest.json")["step"] == 8


def test_other_data_may_have_a_name_that_is_not_utf8(cli, trained, here):
    data = shutil.copy(str(trained / "bars.npz"), str(here / f"{NOT_UTF8}.npz"))
    assert cli("evaluate", trained / "run", "--data", data).code == 0


def test_a_damaged_checkpoint_is_named_by_its_own_path(folder):
    (folder / "model.ckpt-1.index").write_text("damaged")
    with pytest.raises(CheckpointError) as error:
        fingerprint(str(folder / "model.ckpt-1"))
    assert str(folder / "model.ckpt-1") in str(error.value)
    assert "/proc/" not in str(error.value)

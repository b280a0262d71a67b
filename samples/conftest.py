"""Test the packages of this folder without installing them.

Where one is not installed, its modules can be imported, and its entry points are found while the
tests of this folder run.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


def import_first(*names):
    """The first module that there is: some are younger than Python 3.7."""
    return importlib.import_module(next(name for name in names if importlib.util.find_spec(name)))


def read_projects():
    """Folder -> the table [project] of its pyproject.toml."""
    toml = import_first("tomllib", "tomli")
    projects = {}
    for name in sorted(os.listdir(HERE)):
        path = os.path.join(HERE, name, "pyproject.toml")
        if os.path.isfile(path):
            with open(path, "rb") as file:
                projects[os.path.join(HERE, name)] = toml.load(file)["project"]
    return projects


def write_distribution(project, folder):
    """Write what the installation of a package would write of its entry points."""
    name, version = project["name"].replace("-", "_"), project["version"]
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    text = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
    (info / "METADATA").write_text(text)
    lines = []
    for group, entries in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


PROJECTS = read_projects()
sys.path += PROJECTS
# The tests of a package are left out where the library that it is for is missing.
NEEDED = {"mlflow-tracker": "mlflow", "ray-search": "ray"}
collect_ignore = [f"{name}/tests" for name in NEEDED if not importlib.util.find_spec(NEEDED[name])]


@pytest.fixture(scope="session", autouse=True)
def _one_thread_within_an_op():
    """Use one intra-op thread, like a command that trains a small model.

    The first session decides for the process.
    """
    from toolkit import tf

    with tf.Graph().as_default():
        tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)).close()


@pytest.fixture(scope="module", autouse=True)
def _entry_points(tmp_path_factory):
    """Find the plugins of this folder by their names."""
    metadata = import_first("importlib.metadata", "importlib_metadata")
    installed = {each.metadata["Name"] for each in metadata.distributions()}
    folder = tmp_path_factory.mktemp("distributions")
    for project in PROJECTS.values():
        if project["name"] not in installed:
            write_distribution(project, folder)
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))

"""What pyproject.toml lets pip install."""

import importlib
import os

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def requirements():
    """The requirements for running, with their markers."""
    try:
        toml = importlib.import_module("tomllib")
    except ImportError:  # before Python 3.11
        toml = importlib.import_module("tomli")
    with open(os.path.join(REPOSITORY, "pyproject.toml"), "rb") as file:
        texts = toml.load(file)["project"]["dependencies"]
    return [Requirement(text) for text in texts]


def for_python(version, name):
    """The specifier of a package on this Python; None if it is not required there."""
    environment = {"python_version": version}
    (specifier,) = [
        each.specifier
        for each in requirements()
        if each.name == name and (each.marker is None or each.marker.evaluate(environment))
    ] or [None]
    return specifier


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_a_requirement_has_an_upper_bound(requirement):
    operators = {each.operator for each in requirement.specifier}
    assert operators & {"<", "=="}
    assert not requirement.specifier.contains(Version("99.0"))


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_the_installed_version_is_within_the_bounds(requirement):
    if requirement.marker is not None and not requirement.marker.evaluate():
        pytest.skip("not required on this Python")
    try:
        metadata = importlib.import_module("importlib.metadata")
    except ImportError:  # before Python 3.8
        metadata = importlib.import_module("importlib_metadata")
    version = metadata.version(requirement.name)
    assert requirement.specifier.contains(Version(version), prereleases=True), version


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_tf_keras_has_the_bounds_of_tensorflow(version):
    assert for_python(version, "tf_keras") == for_python(version, "tensorflow")


def test_python_3_7_gets_tensorflow_1_15_without_tf_keras():
    assert str(for_python("3.7", "tensorflow")) == "==1.15.*"
    assert for_python("3.7", "tf_keras") is None

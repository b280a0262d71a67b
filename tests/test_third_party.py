"""Plugins of others and the toolkit, all installed from wheels into one environment.

The packages in `samples` are such plugins. Their own tests check them beside the toolkit's; here
they are found by their entry points, and one that draws and has an extension is trained.
"""

import os
import re

import numpy as np
from environment_fixtures import PACKAGES, REPOSITORY
from file_fixtures import read_json


def test_all_packages_come_from_their_wheels(installed):
    packages = ["toolkit", *("toolkit_" + name.replace("-", "_") for name in PACKAGES)]
    code = "; ".join(f"import {package}; print({package}.__file__)" for package in packages)
    paths = installed.run("-c", code).out.split()
    assert len(paths) == len(packages)
    for path in paths:
        assert os.path.realpath(path).startswith(installed.folder + os.sep)
        assert not os.path.realpath(path).startswith(REPOSITORY + os.sep)


def test_the_wheels_require_what_they_need(installed):
    """`pip check` lists unmet requirements; those of other packages do not matter here."""
    output = installed.run("-m", "pip", "check", code=None).out
    assert re.findall(r"(?m)^toolkit\S* .*", output) == []


def test_a_run_trains_and_tests(installed):
    argv = ["run", "--plugin", "vae", "--with", "journal", "--run-dir", "vae", "--hidden", 64]
    argv += ["--dump-steps", 15, "--dump-images", 4, "--steps", 20, "--batch-size", 8, "--json"]
    (result,) = installed.toolkit(argv)
    summary = result.ok().json()
    assert (summary["plugin"], summary["steps"]) == ("vae", 20)
    assert all(np.isfinite(value) for value in summary["test"]["metrics"].values())
    pictures = ["samples/step-00000015.png", "samples/step-00000020.png"]
    for path in ("config.json", "journal.txt", "report.html", *pictures):
        assert os.path.isfile(os.path.join(installed.work, "vae", path))
    plugins = read_json(installed.work, "vae", "manifest.json")["plugins"]
    assert plugins["vae"]["distribution"].startswith("toolkit-vae")
    modules = os.listdir(os.path.join(REPOSITORY, "samples", "vae", "toolkit_vae"))
    assert len(plugins["vae"]["sha256"]) == len([m for m in modules if m.endswith(".py")])
    assert plugins["journal"]["kind"] == "extension"

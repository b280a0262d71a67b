"""The test kit for plugins: small data, runs in one call, and checks for every plugin to pass.

    from toolkit import testing

    def test_my_plugin_passes_the_checks(tmp_path):
        data = testing.write_table(tmp_path / "houses.csv")
        testing.check_plugin("my_plugin", tmp_path, data=data, code_size="8")

`plugin` and `extensions` are references as on the command line, or objects with hooks. Options are
keyword arguments, values or texts. A check that fails raises AssertionError with the expected and
the actual value.

data: small data that a model can learn.
runs: train, and read what a run wrote.
checks: checks of whole runs.
contracts, subject: what `toolkit plugins check` checks, one small function for each contract.
fixtures: the contracts as pytest fixtures.
tiny: a small model, to check extensions and commands with.
steps: the steps of a plugin in memory, and extensions that observe them.
"""

from __future__ import annotations

from . import contracts
from .checks import check_inference, check_plugin, check_resume, check_step_in_a_loop
from .data import write_digits, write_pairs, write_table, write_unlabelled
from .runs import fingerprint, make_run, open_trainer, tensors, train
from .subject import Subject
from .tiny import TINY_MODEL

__all__ = [
    "Subject",
    "TINY_MODEL",
    "contracts",
    "check_inference",
    "check_plugin",
    "check_resume",
    "check_step_in_a_loop",
    "fingerprint",
    "make_run",
    "open_trainer",
    "tensors",
    "train",
    "write_digits",
    "write_pairs",
    "write_table",
    "write_unlabelled",
]

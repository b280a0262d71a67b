"""An extension for any model plugin: it writes `journal.txt` in the run's folder."""

from __future__ import annotations

import os

from toolkit import hookimpl


@hookimpl
def checkpoint_saved(run, step):
    _write(run, f"step {step}: checkpoint saved")


@hookimpl
def run_finished(run, summary):
    _write(run, f"step {summary['steps']}: {summary['reason']}")


def _write(run, line):
    with open(os.path.join(run.folder, "journal.txt"), "a") as file:
        file.write(line + "\n")

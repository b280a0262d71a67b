"""A process that takes part in a study with trials that train nothing.

Usage: python machine.py FOLDER STORAGE SECS_PER_TRIAL [GO]. For each trial that it begins, it
writes a line to FOLDER/trainings. Its trials end once the file GO exists.
"""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_trials import result_of  # noqa: E402
from search_fixtures import small_definition  # noqa: E402

from toolkit.search.study import Study  # noqa: E402
from toolkit.search.workers import run_workers  # noqa: E402

DEFINITION = small_definition(trials=15, rungs=(0.5, 1.0), reduction=2)


def main(folder, storage, secs, go=""):
    study = Study(DEFINITION, folder, storage or None)

    def train(trial, children):
        with open(os.path.join(folder, "trainings"), "a") as file:
            file.write(f"{trial.name} {trial.rung}\n")
        while go and not os.path.exists(go):
            time.sleep(0.01)
        time.sleep(float(secs))
        return result_of(DEFINITION, trial)

    run_workers(study, 2, train, lambda trial, children: 100)


if __name__ == "__main__":
    main(*sys.argv[1:])

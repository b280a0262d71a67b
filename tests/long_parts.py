"""The long tests in parts of at most 40 minutes.

    ./check --long          lists the parts
    ./check --long PART     runs one with the active Python

So they can be run over several sittings, and a part that failed can be repeated alone.
"""

import os
import subprocess
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MUTANTS = 4  # so many parts
LONG = ["-m", "pytest", "--tier", "long", "--show-seconds"]
PYTEST = ["-m", "pytest", "--tier", "quick,ci,long", "--show-seconds", "--timeout", "3600"]
# Name -> what it is, the arguments of Python, and variables of the environment.
PARTS = {
    "tests": (
        "the tests of the tier long, but those of kills",
        [*LONG, "--deselect", "tests/audit/test_chaos.py"],
        {},
    ),
    "fuzz": (
        "fuzzing data and configurations with 2,000 examples",
        [*PYTEST, "tests/fuzz/test_fuzz_config.py", "tests/fuzz/test_fuzz_data.py"],
        {"TOOLKIT_FUZZ_EXAMPLES": "2000"},
    ),
    "fuzz-runs": (
        "fuzzing run folders with 2,000 examples, fewer for commands that build graphs",
        [*PYTEST, "tests/fuzz/test_fuzz_runs.py"],
        {"TOOLKIT_FUZZ_EXAMPLES": "2000"},
    ),
    **{
        f"chaos-{name}": (
            f"{kills} kills of {subject}",
            [*PYTEST, f"tests/audit/test_chaos.py::test_{test}"],
            # One command has all kills of a part.
            {
                "TOOLKIT_CHAOS_KILLS": str(kills),
                "TOOLKIT_CHAOS_SEED": str(seed),
                "TOOLKIT_TEST_PATIENCE": "3600",
            },
        )
        for name, kills, seed, subject, test in (
            ("memory", 200, 3, "a classifier", "a_small_network_survives_kills[resident]"),
            ("stream", 200, 3, "a streamed classifier", "a_small_network_survives_kills[stream]"),
            ("gan-1", 100, 3, "a GAN", "two_networks_survive_kills"),
            ("gan-2", 100, 4, "a GAN, others", "two_networks_survive_kills"),
            ("cluster", 50, 3, "two workers", "a_cluster_is_replayed_and_survives_kills"),
        )
    },
    **{
        f"mutants-{k}": (
            f"part {k} of {MUTANTS} of the mutants",
            ["tests/mutation/run_mutants.py", "--part", f"{k}/{MUTANTS}"],
            {},
        )
        for k in range(1, MUTANTS + 1)
    },
}


def main(names):
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"No part {unknown[0]!r}: choose from {', '.join(PARTS)}.")
    for name in names:
        _, arguments, variables = PARTS[name]
        command = [sys.executable, *arguments]
        code = subprocess.call(command, cwd=REPOSITORY, env={**os.environ, **variables})
        if code:
            sys.exit(code)
    for name, (subject, _, _) in () if names else PARTS.items():
        print(f"{name:13} {subject}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The long tests in parts of at most 40 minutes, whose results are kept by commit.

    ./check --long          lists the parts and how they ended on this commit
    ./check --long PART     runs one with the active Python

So they can be run over several sittings, and a part that failed can be repeated alone.
"""

import json
import os
import subprocess
import sys
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(REPOSITORY, ".long")
MUTANTS = 4  # so many parts
LONG = ["-m", "pytest", "--tier", "long", "--show-seconds"]
PYTEST = ["-m", "pytest", "--tier", "quick,ci,long", "--show-seconds"]
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


def git(*words):
    command = ["git", "-C", REPOSITORY, *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode().strip()


def results_file():
    """The file with the results of what is checked out; changes that are not committed show."""
    state = git("rev-parse", "--short", "HEAD")
    if git("status", "--porcelain"):
        state += "-changed"
    return os.path.join(FOLDER, state + ".jsonl")


def read_results(path):
    """(part, Python) -> its last result."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        results = [json.loads(line) for line in file]
    return {(result["part"], result["python"]): result for result in results}


def show(path):
    """Print the parts with their results on each Python."""
    results = read_results(path)
    for name, (subject, _, _) in PARTS.items():
        print(f"{name:13} {subject}")
        for (part, python), result in results.items():
            if part == name:
                end = "passed" if result["code"] == 0 else f"FAILED with code {result['code']}"
                print(f"{'':13}   Python {python}: {end} in {result['minutes']:.0f} min")


def run(name, path):
    """Run a part, keep its result, and return its exit code."""
    _, arguments, variables = PARTS[name]
    start = time.time()
    command = [sys.executable, *arguments]
    code = subprocess.call(command, cwd=REPOSITORY, env={**os.environ, **variables})
    os.makedirs(FOLDER, exist_ok=True)
    result = {
        "part": name,
        "python": "{}.{}".format(*sys.version_info),
        "code": code,
        "minutes": round((time.time() - start) / 60, 1),
    }
    with open(path, "a") as file:
        file.write(json.dumps(result) + "\n")
    return code


def main(names):
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"No part {unknown[0]!r}: choose from {', '.join(PARTS)}.")
    path = results_file()
    for name in names:
        code = run(name, path)
        if code:
            sys.exit(code)
    show(path)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Break one place of the code at a time and see that a test fails.

    python tests/mutation/run_mutants.py [NAME ...]

The mutants are in `mutants.txt`. Each is applied to a copy of the checkout, and the tests that it
names, as far as CI runs them, run there until the first failure. A mutant that no test notices has
survived: a test is missing. The exit code is 1 if any survived. The tests have to pass without a
mutant. Before all of this, rows of the table that no longer fit the code or the tests are reported.

`mutmut` and `cosmic-ray` mutate every operator and constant, run the whole suite (or fork a process
that has imported TensorFlow) for each, and cannot express a dropped fsync or a lost control
dependency. Here a person chooses the faults, and each costs the seconds of a few test files.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import List, Sequence, Tuple

from mutants import MUTANTS, Mutant

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Of a copied checkout, what has to be importable before the installed packages.
PLUGINS = sorted(os.listdir(os.path.join(REPOSITORY, "plugins")))
IMPORT_ROOTS = ("", *(f"plugins/{name}" for name in PLUGINS))
TESTS_FAILED = 1  # pytest's exit code; others mean that the tests did not run


def find_problems(mutants: Sequence[Mutant]) -> List[str]:
    """What is wrong with rows of the table, a sentence each."""
    problems = []
    names = [mutant.name for mutant in mutants]
    for mutant in mutants:
        if names.count(mutant.name) > 1:
            problems.append(f"{mutant.name}: the name of several rows")
        original = read(mutant.path)
        count = original.count(mutant.old)
        if count != 1:
            problems.append(f"{mutant.name}: its text is {count} times in {mutant.path}")
        elif not is_other_program(mutant.apply(original), original):
            problems.append(f"{mutant.name}: {mutant.path} is no other program with it")
        if not mutant.tests:
            problems.append(f"{mutant.name}: it names no tests")
        for test in mutant.tests:
            path, _, function = test.partition("::")
            if f"def {function}(" not in read(path) if function else "def test_" not in read(path):
                problems.append(f"{mutant.name}: there is no {test}")
    return problems


def read(path: str) -> str:
    """The text of a file of the checkout; "" where there is none."""
    try:
        with open(os.path.join(REPOSITORY, path)) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def is_other_program(text: str, original: str) -> bool:
    """Whether a text is valid Python and differs from the original in more than its form."""
    try:
        return ast.dump(ast.parse(text)) != ast.dump(ast.parse(original))
    except SyntaxError:
        return False


def copy_checkout(target: str) -> None:
    """Copy the working tree without the files that git ignores."""
    listing = subprocess.check_output(
        ["git", "ls-files", "-zco", "--exclude-standard"], cwd=REPOSITORY
    )
    for path in filter(None, listing.decode().split("\0")):
        source = os.path.join(REPOSITORY, path)
        if os.path.isfile(source):
            os.makedirs(os.path.dirname(os.path.join(target, path)), exist_ok=True)
            shutil.copy2(source, os.path.join(target, path))


def run_mutant(checkout: str, mutant: Mutant, timeout_secs: float) -> Tuple[str, str]:
    """Run the tests of a mutant in the copied checkout until the first failure.

    Returns "caught", "survived", or "error" where the tests did not run, and as evidence the first
    failing test, or the end of pytest's output for an error.
    """
    roots = [os.path.join(checkout, root) for root in IMPORT_ROOTS]
    # Without PYTEST_ADDOPTS, which may leave out the summary that is read below.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment.update(PYTHONPATH=os.pathsep.join(roots), PYTHONDONTWRITEBYTECODE="1")
    # Alone, the tests of a plugin that brings its own have no tiers.
    has_tiers = any(test.startswith("tests/") for test in mutant.tests)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-rfE"]
    command += ["-p", "no:cacheprovider", *(["--tier", "quick,ci"] if has_tiers else [])]
    path, original = os.path.join(checkout, mutant.path), read(mutant.path)
    try:
        write(path, mutant.apply(original))
        process = subprocess.run(
            [*command, *mutant.tests],
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_secs,
        )
    except subprocess.TimeoutExpired:
        return "caught", f"no end after {timeout_secs:.0f} s"
    finally:
        write(path, original)
    failures = re.findall(r"(?m)^(?:FAILED|ERROR) (\S.*?::.+?)(?: - .*)?$", process.stdout)
    if process.returncode == 0:
        return "survived", "-"
    if process.returncode == TESTS_FAILED and failures:
        return "caught", failures[0]
    return "error", " ".join(process.stdout.split())[-300:]


def run_mutants(checkout: str, mutants: Sequence[Mutant], timeout_secs: float) -> List[str]:
    """Print a row per mutant and return the names of those that were not caught."""
    missed = []
    for mutant in mutants:
        start = time.monotonic()
        status, evidence = run_mutant(checkout, mutant, timeout_secs)
        secs = time.monotonic() - start
        print(f"{status:8} {secs:5.0f} s  {mutant.name}: {mutant.path}: {evidence}", flush=True)
        if status != "caught":
            missed.append(mutant.name)
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to run (default: all)")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds per mutant")
    arguments = parser.parse_args()
    number, count = map(int, arguments.part.split("/"))
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    mutants = [by_name[name] for name in arguments.names] or MUTANTS[number - 1 :: count]
    problems = find_problems(MUTANTS)
    if problems:
        sys.exit("\n".join(["Rows of mutants.txt that do not fit the sources:", *problems]))
    checkout = tempfile.mkdtemp(prefix="mutants-")
    try:
        copy_checkout(checkout)
        missed = run_mutants(checkout, mutants, arguments.timeout)
    finally:
        shutil.rmtree(checkout)
    print(f"{len(mutants) - len(missed)} of {len(mutants)} mutants caught")
    sys.exit(f"Not caught: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()

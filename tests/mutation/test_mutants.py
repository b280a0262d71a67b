"""A row of the table of mutants that does not fit the sources is reported, and not run."""

from mutants import Mutant
from run_mutants import find_problems

PATH, TESTS = "tests/mutation/mutants.py", ("tests/mutation/test_mutants.py",)


def test_a_row_that_does_not_fit_the_sources_is_reported():
    rows = [
        Mutant("twice", PATH, "class Mutant(", "class Other(", TESTS),
        Mutant("twice", PATH, "class Mutant(", "class Other(", TESTS),
        Mutant("gone", PATH, "class Nothing" + "(", "", TESTS),
        Mutant("the-same", PATH, "class Mutant(", "class Mutant( ", TESTS),
        Mutant("no-python", PATH, "class Mutant(", "class (", TESTS),
        Mutant("untested", PATH, "class Mutant(", "class Other(", (TESTS[0] + "::test_none",)),
    ]
    assert find_problems(rows) == [
        "twice: the name of several rows",
        "twice: the name of several rows",
        f"gone: its text is 0 times in {PATH}",
        f"the-same: {PATH} is no other program with it",
        f"no-python: {PATH} is no other program with it",
        f"untested: there is no {TESTS[0]}::test_none",
    ]

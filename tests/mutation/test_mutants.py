"""The table of mutants is read as it is written, and a row that does not fit is not run."""

from mutants import MUTANTS, Mutant, read_mutants
from run_mutants import find_problems

PATH, TESTS = "tests/mutation/mutants.py", ("tests/mutation/test_mutants.py",)
TEXT = """@@ a.py test_a.py test_b.py
a-part-of-a-line
-one and
-two
+three
a-removed-line
-    pass

@@ b.py test_b.py
nothing-in-its-place
- or 2
+
"""


def test_a_table_has_parts_of_lines_and_removed_lines():
    both = ("test_a.py", "test_b.py")
    assert read_mutants(TEXT) == [
        Mutant("a-part-of-a-line", "a.py", "one and\ntwo", "three", both),
        Mutant("a-removed-line", "a.py", "    pass\n", "", both),
        Mutant("nothing-in-its-place", "b.py", " or 2", "", ("test_b.py",)),
    ]


def test_each_row_fits_the_sources_and_names_tests_that_exist():
    assert find_problems(MUTANTS) == []


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

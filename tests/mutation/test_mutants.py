"""The table of mutants is read as it is written, and each row fits the sources."""

from mutants import MUTANTS, Mutant, read_mutants
from run_mutants import find_problems

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

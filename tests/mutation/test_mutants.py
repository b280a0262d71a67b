"""Each row of the table of mutants fits the sources."""

from mutants import MUTANTS
from run_mutants import find_problems


def test_each_row_fits_the_sources_and_names_tests_that_exist():
    assert len(MUTANTS) > 100 and find_problems(MUTANTS) == []

"""The table of mutants fits the code: each change applies at one place and is valid Python."""

import ast
import os

import pytest
from file_fixtures import REPOSITORY
from mutants import MUTANTS


def read(path):
    with open(os.path.join(REPOSITORY, path)) as file:
        return file.read()


def test_there_are_at_least_forty_mutants_each_with_its_own_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_is_valid_python(mutant):
    original = read(mutant.path)
    assert original.count(mutant.old) == 1
    assert ast.dump(ast.parse(mutant.apply(original))) != ast.dump(ast.parse(original))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_a_mutant_names_exist(mutant):
    assert mutant.tests
    for test in mutant.tests:
        path, _, function = test.partition("::")
        assert f"def {function}(" in read(path) if function else "def test_" in read(path)

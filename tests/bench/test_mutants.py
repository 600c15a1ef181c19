"""The mutants still apply to the source, and each has tests that could kill it."""

from collections import Counter

import pytest

from bench.mutants.catalogue import MUTANTS
from bench.mutants.mutant import ROOT, Mutant
from tests.docs.requirements_page import names_by_requirement

MIN_MUTANTS = 80


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_changes_the_source_at_exactly_one_place(mutant: Mutant) -> None:
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    assert mutant.apply(text) != text


def test_every_mutant_breaks_requirements_that_tests_name() -> None:
    names = names_by_requirement()
    assert {
        mutant.id for mutant in MUTANTS if not any(names.get(id_) for id_ in mutant.requirements)
    } == set()


def test_there_are_enough_mutants_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= MIN_MUTANTS
    assert [name for name, count in Counter(mutant.id for mutant in MUTANTS).items() if count > 1] == []

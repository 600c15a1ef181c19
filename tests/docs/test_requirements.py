"""docs/requirements.md lists every requirement with the tests that name it, and tests name no others."""

from tests.docs.requirements_page import PAGE, listed_tests, names_by_requirement, render

COUNTS = {"S0": 49, "S1": 23, "S2": 40, "S3": 23, "S4": 70}
REQUIREMENTS = {f"{part}-{n:02}" for part, count in COUNTS.items() for n in range(1, count + 1)}


def test_every_requirement_is_listed() -> None:
    assert set(listed_tests(PAGE.read_text(encoding="utf-8"))) == REQUIREMENTS


def test_every_requirement_has_a_test() -> None:
    assert REQUIREMENTS - set(names_by_requirement()) == set()


def test_tests_name_only_requirements_that_are_listed() -> None:
    assert set(names_by_requirement()) <= REQUIREMENTS


def test_the_page_lists_exactly_the_tests_that_name_a_requirement() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == render(page, names_by_requirement()), "run `python -m tests.docs.requirements_page`"

"""Every named statement is one that the present schema takes."""

import re
from importlib import resources

import pytest

from gristmill.db import Database
from gristmill.db.queries import Queries

PACKAGES = ["gristmill.catalog", "gristmill.jobs", "gristmill.search"]
STATEMENTS = [(package, name) for package in PACKAGES for name in Queries(package).names()]


def test_every_package_with_queries_is_listed() -> None:
    root = resources.files("gristmill")
    found = [f"gristmill.{entry.name}" for entry in root.iterdir() if entry.joinpath("queries.sql").is_file()]
    assert sorted(found) == sorted(PACKAGES)


@pytest.mark.parametrize(("package", "name"), STATEMENTS)
async def test_a_statement_can_be_prepared(db: Database, package: str, name: str) -> None:
    statement = Queries(package)[name].decode()
    numbers: dict[str, int] = {}
    numbered = re.sub(r"%\((\w+)\)s", lambda m: f"${numbers.setdefault(m[1], len(numbers) + 1)}", statement)
    async with db.connection() as tx:
        await tx.execute(f"prepare it as {numbered}".encode())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_statement_has_a_sentence(package: str) -> None:
    queries = Queries(package)
    for name in queries.names():
        first = queries[name].decode().splitlines()[0]
        assert re.fullmatch(r"-- .+[.:]", first), f"{package} {name}: {first}"


def test_a_statement_that_is_not_there_is_told() -> None:
    with pytest.raises(KeyError):
        Queries("gristmill.jobs")["nothing"]

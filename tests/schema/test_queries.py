"""Every named statement is valid for the present schema."""

import re
from importlib import resources

import pytest

from gristmill.db import Database
from gristmill.db.queries import Queries

PACKAGES = [
    "gristmill.catalog",
    "gristmill.connectors",
    "gristmill.contents",
    "gristmill.embedding",
    "gristmill.events",
    "gristmill.files",
    "gristmill.jobs",
    "gristmill.identity",
    "gristmill.integrity",
    "gristmill.operations",
    "gristmill.portable",
    "gristmill.search",
    "gristmill.usage",
]


def test_every_package_with_queries_is_listed() -> None:
    root = resources.files("gristmill")
    packages = [
        f"gristmill.{entry.name}" for entry in root.iterdir() if entry.joinpath("queries.sql").is_file()
    ]
    assert sorted(packages) == sorted(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
async def test_the_schema_takes_every_statement(db: Database, package: str) -> None:
    queries = Queries(package)
    async with db.connection() as tx:
        for name in queries.names():
            statement = queries[name].decode()
            if re.search(r"^copy ", statement, re.MULTILINE):  # can't be prepared: run, with no rows
                async with tx.cursor() as cursor, cursor.copy(statement.encode()):
                    pass
                continue
            if re.search(r"^set ", statement, re.MULTILINE):  # can't be prepared either
                await tx.execute(statement.encode())
                continue
            numbers: dict[str, int] = {}
            prepared = re.sub(
                r"%\((\w+)\)s", lambda m, seen=numbers: f"${seen.setdefault(m[1], len(seen) + 1)}", statement
            )
            await tx.execute(f"prepare {package.replace('.', '_')}_{name} as {prepared}".encode())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_statement_has_a_sentence(package: str) -> None:
    queries = Queries(package)
    for name in queries.names():
        first = queries[name].decode().splitlines()[0]
        assert re.fullmatch(r"-- .+[.:]", first), f"{package} {name}: {first}"


def test_an_unknown_statement_is_an_error() -> None:
    with pytest.raises(KeyError):
        Queries("gristmill.jobs")["nothing"]

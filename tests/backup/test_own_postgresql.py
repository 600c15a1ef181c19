"""The recipe for a PostgreSQL of one's own, as its page shows it, with the programs of the wheel."""

import os
import re
import subprocess
from pathlib import Path

import psycopg

from gristmill.db.copy_database import compare_databases
from gristmill.db.programs import find_programs

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "back-up.md"


def run(command: str, folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(["bash", "-ec", command], cwd=folder, env=environment, check=True)


async def test_a_dump_of_ones_own_postgresql_is_restored_by_the_commands_of_the_page(
    database_url: str, other_database_url: str, tmp_path: Path
) -> None:
    dump, restore = re.findall(r"^pg_(?:dump|restore) .+$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into organisation (name) values ('Müller')")
    with psycopg.connect(other_database_url, autocommit=True) as connection:
        connection.execute("drop schema public cascade; create schema public")
    for command, url in ((dump, database_url), (restore, other_database_url)):
        environment = {"PATH": f"{find_programs()}:{os.environ['PATH']}", "GRISTMILL_DATABASE_URL": url}
        run(command, tmp_path, environment)
    assert await compare_databases(database_url, other_database_url, print) > 20

"""Long walks over the connectors: `uv run python -m bench.connector_walk [--tool NAME] [--steps N] [--seed S] [--minutes M]`.

Each walk (tests/connectors/walk.py) is a random sequence of changes, hides, shows and faults in a fake tool, and of runs, crashes and
cancels of its connector, in a database of its own. After every run that nothing disturbs, the base must equal the tool for
every viewer. Walks are taken over all tools in turn, with one seed after the other, until the time is up. A walk that fails is
printed with its error, then shortened: steps are left out as long as it still fails. The shortest sequence is printed, with its
error, and the command ends with status 1 after all tools had their turn. `--repeat "add:3 sync:1"` takes the steps that were printed.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from gristmill import app
from gristmill.connectors import sync, transport
from gristmill.db import local_server
from gristmill.db.migrate import migrate
from gristmill.settings import Settings
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import FAKES, ConnectorHarness
from tests.connectors.walk import ConnectorWalk, WalkStep, draw_steps, parse_steps
from tests.embedding.hashed import HashedEmbedder

_TEMPLATE = "template_walk"
_CONFIG = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_NEVER = "0 0 29 2 *"


class WalkGround:
    """A PostgreSQL for walks, each in a copy of one migrated database."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder

    async def prepare(self) -> None:
        """Create the database that is copied."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(_TEMPLATE)))
        await migrate(make_conninfo(self._url, dbname=_TEMPLATE))

    @asynccontextmanager
    async def gristmill(self) -> AsyncGenerator[app.Gristmill]:
        """A Gristmill with an empty database."""
        name = f"walk_{uuid4().hex}"
        with psycopg.connect(self._url, autocommit=True) as connection:
            copy = sql.SQL("create database {} template {} strategy file_copy")
            connection.execute(copy.format(sql.Identifier(name), sql.Identifier(_TEMPLATE)))
            settings = Settings(
                data_dir=self._folder / name,
                database_url=SecretStr(make_conninfo(self._url, dbname=name)),
                allow_private_addresses=True,
                port=0,
                embedder="hashed",
                reconcile_cron=_NEVER,
                watch_folders=False,
                reader_processes=1,
                stop_grace=timedelta(seconds=0.5),
            )
            extra = {"hashed": HashedEmbedder()}
            try:
                async with app.gristmill(settings, work=True, extra_embedders=extra) as mill:
                    yield mill
            finally:
                connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    async def error_of(self, tool: str, steps: Sequence[WalkStep]) -> Exception | None:
        """How a walk fails; None if it does not."""
        try:
            async with self.gristmill() as mill:
                with serve_fake(FAKES[tool]()) as fake:
                    await ConnectorWalk(await ConnectorHarness.create(mill, fake)).walk(steps)
        except Exception as error:  # whatever it is, it is what the walk is to find
            return error
        return None


async def shorten(
    ground: WalkGround, tool: str, steps: list[WalkStep], error: Exception, until: float
) -> tuple[list[WalkStep], Exception]:
    """Leave out steps, larger parts first, as long as the walk still fails in the same way."""
    size = len(steps) // 2
    while size and time.monotonic() < until:
        start = 0
        while start < len(steps) and time.monotonic() < until:
            rest = steps[:start] + steps[start + size :]
            failure = await ground.error_of(tool, rest)
            if failure is not None and type(failure) is type(error):
                steps, error = rest, failure
            else:
                start += size
        size //= 2
    return steps, error


async def walk_all(ground: WalkGround, options: argparse.Namespace) -> int:
    """Walk over the tools in turn until the time is up; how many of them fail."""
    await ground.prepare()
    tools: list[str] = [options.tool] if options.tool else sorted(FAKES)
    if options.repeat:
        error = await ground.error_of(tools[0], parse_steps(options.repeat))
        _report(tools[0], "given", parse_steps(options.repeat), error)
        return error is not None
    failed: set[str] = set()
    ends_at, seed, count = time.monotonic() + options.minutes * 60, options.seed, 0
    while time.monotonic() < ends_at and len(failed) < len(tools):
        for tool in [name for name in tools if name not in failed]:
            if time.monotonic() >= ends_at:
                break
            steps = draw_steps(random.Random(f"{FAKES[tool].kind} {seed}"), options.steps)
            error, count = await ground.error_of(tool, steps), count + 1
            if error is not None:
                failed.add(tool)
                _report(tool, seed, steps, error)  # at once: it may not fail again
                until = time.monotonic() + options.shorten * 60
                print(f"{tool}: shortening {len(steps)} steps", flush=True)
                steps, error = await shorten(ground, tool, steps, error, until)
            _report(tool, seed, steps, error)
        seed += 1
    print(f"{count} walks; failed: {', '.join(sorted(failed)) or 'none'}")
    return len(failed)


def _report(tool: str, seed: object, steps: Sequence[WalkStep], error: Exception | None) -> None:
    if error is None:
        print(f"{tool} seed {seed}: {len(steps)} steps, the base equals the tool", flush=True)
        return
    print(f"\n{tool} seed {seed} FAILED: {' '.join(map(str, steps))}")
    traceback.print_exception(error, limit=-4, file=sys.stdout)
    print(flush=True)


def main() -> None:
    """Parse the arguments, and walk."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", choices=sorted(FAKES), help="by default all of them")
    parser.add_argument("--steps", type=int, default=60, help="of a walk, about")
    parser.add_argument("--seed", type=int, default=1, help="of the first walk")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--shorten", type=float, default=3, help="minutes for a walk that fails")
    parser.add_argument("--repeat", help="the steps of a walk, as they were printed")
    options = parser.parse_args()
    # The waits between retries say nothing about the base.
    transport._MAX_DELAY, transport._MARGIN = 0.02, timedelta(0)  # pyright: ignore[reportPrivateUsage]
    logging.disable()  # the faults are meant
    sync._INDEXING_POLL = timedelta(milliseconds=50)  # pyright: ignore[reportPrivateUsage]
    with tempfile.TemporaryDirectory(prefix="gristmill-walk-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = local_server.start(Path(folder) / "server", extra_config=_CONFIG)
        try:
            failures = asyncio.run(walk_all(WalkGround(server.url, Path(folder)), options))
        finally:
            server.close()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

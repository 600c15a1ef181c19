"""A connector under test: a double, a mill, a base; and what must be equal after every run."""

from dataclasses import dataclass
from typing import Any, LiteralString

from gristmill import app, jobs
from gristmill.catalog import Base
from gristmill.operations import bases, connection, connections, health
from gristmill.operations.connection import Connector, Run
from gristmill.operations.connections import NewConnector
from gristmill.vault import Vault
from tests.connectors.double import Double, Truth, marks_in
from tests.connectors.doubles.confluence import ConfluenceDataCenterDouble, ConfluenceDouble
from tests.connectors.doubles.github import GitHubDouble
from tests.connectors.doubles.gitlab import GitLabDouble
from tests.connectors.doubles.jira import JiraDataCenterDouble, JiraDouble
from tests.embedding.hashed import HashedEmbedder
from tests.waiting import until

# One entry a kind: the contract suite runs over all of them.
TOOLS: dict[str, type[Double]] = {
    "confluence": ConfluenceDouble,
    "confluence_data_center": ConfluenceDataCenterDouble,
    "github": GitHubDouble,
    "gitlab": GitLabDouble,
    "jira": JiraDouble,
    "jira_data_center": JiraDataCenterDouble,
}
NEVER = "0 0 29 2 *"


@dataclass
class Bench:
    """A connector, and what surrounds it."""

    mill: app.Gristmill
    tool: Double
    base: Base
    connector: Connector

    @classmethod
    async def made(cls, mill: app.Gristmill, tool: Double, **given: Any) -> "Bench":
        base = await bases.create(mill.db, f"base of {tool.kind}", HashedEmbedder(), {})
        new = NewConnector(
            tool.kind, tool.kind, tool.config(), tool.credentials(), NEVER, NEVER, base_ids=[base.id], **given
        )
        vault = Vault(mill.settings.secret_key, mill.settings.data_dir)
        return cls(mill, tool, base, await connections.create(mill.db, vault, mill.tools, new))

    async def start(self, **given: Any) -> Run:
        """Begin a run."""
        _, run = await connections.sync(self.mill.db, self.connector.id, **given)
        return run

    async def sync(self, **given: Any) -> Run:
        """A whole run; how it ended."""
        self.tool.tick()
        return await self.ended(await self.start(**given))

    async def ended(self, run: Run) -> Run:
        """A run, once it has ended."""

        async def look() -> Run | None:
            async with self.mill.db.connection() as tx:
                now = await connection.find_run(tx, run.id)
            assert now is not None
            return now if now.completed_at is not None else None

        return await until(look)

    async def run_now(self, run: Run) -> Run:
        """A run as it is now."""
        async with self.mill.db.connection() as tx:
            found = await connection.find_run(tx, run.id)
        assert found is not None
        return found

    async def found(self) -> dict[str, Truth]:
        """What the base answers with: the marks of each record's searchable chunks, and who may see it."""
        rows = await self.fetch(
            "select i.source_key, i.acl, coalesce(string_agg(c.text, ' '), '') from item i"
            " left join chunk c on c.base_id = i.base_id and c.item_id = i.id and c.version = i.live_version"
            " where i.base_id = %s and i.type = 'record' and i.status <> 'deleting' group by i.id",
            self.base.id,
        )
        return {key: Truth(marks_in(text), frozenset(acl or ())) for key, acl, text in rows}

    async def equal(self) -> None:
        """The base is as the tool is, and everything promised holds."""
        found, truth = await self.found(), self.tool.truth()
        assert set(found) == set(truth)
        for key, expected in truth.items():
            assert found[key] == expected, key

        async def healthy() -> bool:
            async with self.mill.db.connection() as tx:
                return await health.violations(tx) == []

        await until(healthy)

    async def fetch(self, statement: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        async with self.mill.db.connection() as tx:
            return await (await tx.execute(statement, parameters)).fetchall()

    async def hurry(self) -> None:
        """Whatever waits need not wait any longer."""
        async with self.mill.db.transaction() as tx:
            await jobs.hurry(tx, [self.connector.id])

    async def lines(self, run: Run) -> str:
        """The log of a run."""
        async with self.mill.db.connection() as tx:
            return "\n".join(line.message for line in await connection.lines(tx, run.id, limit=500))

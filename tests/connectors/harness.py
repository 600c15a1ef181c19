"""A connector under test, with its fake tool, Gristmill and base; compares base and tool after every run."""

from dataclasses import dataclass
from typing import Any, LiteralString

from gristmill import app, jobs
from gristmill.catalog import Base
from gristmill.connectors import admin
from gristmill.connectors.model import ConnectorRow, ConnectorRun, NewConnector
from gristmill.integrity import invariants
from gristmill.operations import bases
from gristmill.vault import Vault
from tests.connectors.fakes.confluence import FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.gitlab import FakeGitLab
from tests.connectors.fakes.jira import FakeJira, FakeJiraDataCenter
from tests.connectors.fakes.tool import ExpectedDocument, FakeTool, words_in
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until

# The contract suite runs over all of them.
FAKES: dict[str, type[FakeTool]] = {
    "confluence": FakeConfluence,
    "confluence_data_center": FakeConfluenceDataCenter,
    "github": FakeGitHub,
    "gitlab": FakeGitLab,
    "jira": FakeJira,
    "jira_data_center": FakeJiraDataCenter,
}
NEVER = "0 0 29 2 *"


@dataclass
class ConnectorHarness:
    """A connector with its fake tool and its base."""

    mill: app.Gristmill
    tool: FakeTool
    base: Base
    connector: ConnectorRow

    @classmethod
    async def create(cls, mill: app.Gristmill, tool: FakeTool, **options: Any) -> "ConnectorHarness":
        base = await bases.create(mill.db, f"base of {tool.kind}", HashedEmbedder(), {})
        new = NewConnector(
            tool.kind,
            tool.kind,
            tool.config(),
            tool.credentials(),
            NEVER,
            NEVER,
            base_ids=[base.id],
            **options,
        )
        vault = Vault(mill.settings.secret_key, mill.settings.data_dir)
        return cls(mill, tool, base, await admin.create(mill.db, vault, mill.connectors, new))

    async def start(self, **options: Any) -> ConnectorRun:
        """Start a run."""
        _, run = await admin.start_sync(self.mill.db, self.connector.id, **options)
        return run

    async def sync(self, **options: Any) -> ConnectorRun:
        """Run the connector to the end; the ended run."""
        self.tool.advance_clock()
        return await self.wait_until_ended(await self.start(**options))

    async def wait_until_ended(self, run: ConnectorRun) -> ConnectorRun:
        """Wait until a run has ended; the ended run."""

        async def look() -> ConnectorRun | None:
            async with self.mill.db.connection() as tx:
                now = await admin.find_run(tx, run.id)
            assert now is not None
            return now if now.completed_at is not None else None

        return await wait_until(look)

    async def reload_run(self, run: ConnectorRun) -> ConnectorRun:
        """A run as it is now."""
        async with self.mill.db.connection() as tx:
            current = await admin.find_run(tx, run.id)
        assert current is not None
        return current

    async def indexed_documents(self) -> dict[str, ExpectedDocument]:
        """What the base has: the words of each record's searchable chunks, and who may see it."""
        rows = await self.fetch(
            "select i.source_key, i.acl, coalesce(string_agg(c.text, ' '), '') from item i"
            " left join chunk c on c.base_id = i.base_id and c.item_id = i.id and c.version = i.live_version"
            " where i.base_id = %s and i.type = 'record' and i.status <> 'deleting' group by i.id",
            self.base.id,
        )
        return {key: ExpectedDocument(words_in(text), frozenset(acl or ())) for key, acl, text in rows}

    async def assert_matches_tool(self) -> None:
        """The base equals the tool, and no invariant is violated."""
        found, truth = await self.indexed_documents(), self.tool.expected_documents()
        assert set(found) == set(truth)
        for key, expected in truth.items():
            assert found[key] == expected, key

        async def healthy() -> bool:
            async with self.mill.db.connection() as tx:
                return await invariants.find_violations(tx) == []

        await wait_until(healthy)

    async def fetch(self, statement: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        async with self.mill.db.connection() as tx:
            return await (await tx.execute(statement, parameters)).fetchall()

    async def run_delayed_jobs(self) -> None:
        """Make delayed jobs of the connector due now."""
        async with self.mill.db.transaction() as tx:
            await jobs.run_now(tx, [self.connector.id])

    async def log_text(self, run: ConnectorRun) -> str:
        """The log of a run."""
        async with self.mill.db.connection() as tx:
            return "\n".join(line.message for line in await admin.find_log_lines(tx, run.id, limit=500))

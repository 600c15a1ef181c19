"""A connector under test, with its fake tool, Gristmill and base; compares base and tool after every run."""

from dataclasses import dataclass
from typing import Any, LiteralString

from gristmill import app, jobs
from gristmill.catalog import Base, access
from gristmill.connectors import admin
from gristmill.connectors.model import ConnectorChanges, ConnectorRow, ConnectorRun, NewConnector
from gristmill.identity import tool_groups
from gristmill.integrity import invariants
from gristmill.jobs import NewJob
from gristmill.operations import bases
from gristmill.search import Searcher, SearchRequest, Target
from gristmill.search.query_syntax import MAX_TERMS
from gristmill.vault import Vault
from gristmill.work import SyncAccess
from tests.connectors.fakes.confluence import FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.drives import FakeGoogleDrive, FakeGraph
from tests.connectors.fakes.files import FakeGitServer, FakeS3, FakeWebDav
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.gitlab import FakeGitLab
from tests.connectors.fakes.jira import FakeJira, FakeJiraDataCenter
from tests.connectors.fakes.linear import FakeLinear
from tests.connectors.fakes.notion import FakeNotion
from tests.connectors.fakes.pages import FakeFeed, FakeMediaWiki
from tests.connectors.fakes.slack import FakeSlack
from tests.connectors.fakes.tool import ExpectedDocument, FakeTool, words_in
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until

# The contract suite and the walks run over all of them. IMAP has no fake: its tests have a real Dovecot.
FAKES: dict[str, type[FakeTool]] = {
    "confluence": FakeConfluence,
    "confluence_data_center": FakeConfluenceDataCenter,
    "feeds": FakeFeed,
    "git": FakeGitServer,
    "github": FakeGitHub,
    "gitlab": FakeGitLab,
    "google-drive": FakeGoogleDrive,
    "jira": FakeJira,
    "jira_data_center": FakeJiraDataCenter,
    "linear": FakeLinear,
    "mediawiki": FakeMediaWiki,
    "notion": FakeNotion,
    "s3": FakeS3,
    "sharepoint": FakeGraph,
    "slack": FakeSlack,
    "webdav": FakeWebDav,
}
NEVER = "0 0 29 2 *"


def vault_of(mill: app.Gristmill) -> Vault:
    """The vault in which a Gristmill keeps the credentials of its connectors."""
    return Vault(mill.settings.secret_key, mill.settings.data_dir)


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
        return cls(mill, tool, base, await admin.create(mill.db, vault_of(mill), mill.connectors, new))

    async def change(self, **changes: Any) -> None:
        """Change the connector's settings."""
        self.connector = await admin.change(
            self.mill.db,
            vault_of(self.mill),
            self.mill.connectors,
            self.connector.id,
            ConnectorChanges(**changes),
        )

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

        async def ended_run() -> ConnectorRun | None:
            async with self.mill.db.connection() as tx:
                current = await admin.find_run(tx, run.id)
            assert current is not None
            return current if current.completed_at is not None else None

        return await wait_until(ended_run)

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
            " left join chunk c on c.set_id = i.base_id and c.item_id = i.id and c.version = i.live_version"
            " where i.base_id = %s and i.type = 'record' and i.status <> 'deleting' group by i.id",
            self.base.id,
        )
        members = await self.tool_group_members()
        return {
            key: ExpectedDocument(
                words_in(text), frozenset(entry for each in acl or () for entry in members.get(each, [each]))
            )
            for key, acl, text in rows
        }

    async def tool_group_members(self) -> dict[str, list[str]]:
        """Who the entry of each group of a tool stands for, as the server resolves it; nobody while it is not complete."""
        rows = await self.fetch("select id from connector_group")
        emails = await self.fetch(
            "select distinct lower(email) from (select email from connector_group_member"
            " union select email from connector_identity) m where email is not null"
        )
        members: dict[str, list[str]] = {f"tool_group:{group}": [] for (group,) in rows}
        async with self.mill.db.connection() as tx:
            for (email,) in emails:
                for group in await tool_groups.find_tool_groups(tx, self.connector.org_id, email):
                    members[f"tool_group:{group}"].append(f"user_email:{email}")
        return members

    async def assert_matches_tool(self) -> None:
        """The base equals the tool, and no invariant is violated."""
        actual, expected = await self.indexed_documents(), self.tool.expected_documents()
        missing, surplus = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        assert (missing, surplus - self.tool.former_ids) == (set(), set())
        for key, document in expected.items():
            assert actual[key] == document, key

        async def healthy() -> bool:
            async with self.mill.db.connection() as tx:
                return await invariants.find_violations(tx) == []

        await wait_until(healthy)

    async def fetch(self, statement: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        async with self.mill.db.connection() as tx:
            return await (await tx.execute(statement, parameters)).fetchall()

    async def run_delayed_jobs(self) -> None:
        """Make delayed jobs of the connector and of its documents due now."""
        subjects = await self.fetch("select distinct subject from job where state = 'delayed'")
        async with self.mill.db.transaction() as tx:
            await jobs.run_now(tx, [subject for (subject,) in subjects])

    async def refresh_permissions(self) -> None:
        """Read the permissions without a run, and wait until they are recorded."""
        async with self.mill.db.transaction() as tx:
            await jobs.enqueue(tx, NewJob(SyncAccess(self.connector.id), lane=self.connector.lane))

        async def is_over() -> bool:
            return await self.fetch("select 1 from job where kind = 'sync_access' and state <> 'dead'") == []

        await wait_until(is_over)

    async def visible_ids(self, email: str | None) -> set[str]:
        """The source ids of the documents that a user's search returns; without an address, an admin's."""
        documents = self.tool.expected_documents().values()
        words = sorted(min(document.words) for document in documents if document.words)
        viewer = access.ADMIN
        if email is not None:
            async with self.mill.db.connection() as tx:
                groups = await tool_groups.find_tool_groups(tx, self.connector.org_id, email)
            viewer = access.member(email, org=self.connector.org_id, tool_groups=groups)
        searcher = Searcher(self.mill.db, cache_bytes=2**20)
        ids: set[str] = set()
        for start in range(0, len(words), MAX_TERMS):
            query = " ".join(words[start : start + MAX_TERMS])
            request = SearchRequest(query, limit=100, mode="text", viewer=viewer)
            hits = await searcher.search([Target(self.base, None)], request)
            ids |= {hit.source["sourceId"] for hit in hits}
        return ids

    async def log_text(self, run: ConnectorRun) -> str:
        """The log of a run."""
        async with self.mill.db.connection() as tx:
            return "\n".join(line.message for line in await admin.find_log_lines(tx, run.id, limit=500))

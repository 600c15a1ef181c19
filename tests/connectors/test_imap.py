"""Mail by IMAP, read from a real Dovecot through every change that a mail program makes."""

import imaplib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gristmill import app
from gristmill.catalog import access
from gristmill.connectors import admin, imap
from gristmill.connectors.model import ConnectorRun, NewConnector
from gristmill.connectors.port import ConnectorLimits
from gristmill.connectors.testing import open_kind
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import Transient
from gristmill.net import PrivateAddress
from gristmill.operations import bases
from gristmill.search import Searcher, SearchRequest, Target
from tests import reverse_proxy
from tests.connectors.harness import NEVER, ConnectorHarness, vault_of
from tests.connectors.servers.dovecot import PASSWORD, USER, Dovecot, find_dovecot, message, run_dovecot
from tests.embedding.hashed import HashedEmbedder

pytestmark = pytest.mark.skipif(
    find_dovecot() is None, reason="needs Dovecot (Debian's dovecot-imapd), and root to start it"
)


@pytest.fixture(autouse=True)
def trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the certificate of the tests."""
    monkeypatch.setenv("SSL_CERT_FILE", str(reverse_proxy.certificate().path))


class MailHarness(ConnectorHarness):
    """A connector to a mailbox, and the base that it feeds."""

    @classmethod
    async def follow(cls, mill: app.Gristmill, server: Dovecot, **config: Any) -> "MailHarness":
        """Follow the mailbox into a new base."""
        base = await bases.create(mill.db, "mail", HashedEmbedder(), {})
        new = NewConnector(
            "imap",
            "imap",
            {**server.config(), **config},
            server.credentials(),
            NEVER,
            NEVER,
            base_ids=[base.id],
        )
        connector = await admin.create(mill.db, vault_of(mill), mill.connectors, new)
        return cls(mill, None, base, connector)  # pyright: ignore[reportArgumentType]

    async def run(self) -> ConnectorRun:
        """Run the connector to its end, deletions included."""
        run = await self.wait_until_ended(await self.start(allow_deletions=True))
        assert run.status == "success", await self.log_text(run)
        return run

    async def titles(self) -> list[str]:
        """The subjects in the base."""
        rows = await self.fetch(
            "select title from item where base_id = %s and type = 'record' and status = 'completed' order by title",
            self.base.id,
        )
        return sorted(title for (title,) in rows)

    async def find(self, query: str, email: str) -> list[str]:
        """The titles that a person's search finds by words."""
        request = SearchRequest(query, mode="text", viewer=access.member(email))
        hits = await Searcher(self.mill.db, cache_bytes=2**20).search([Target(self.base, None)], request)
        return [hit.title for hit in hits]


async def test_a_mailbox_is_followed_through_new_moved_copied_and_deleted_mail(mill: app.Gristmill) -> None:
    """Each message is read once, whatever folder it is in; only its owner finds it; and it stays unread."""
    with run_dovecot() as server:
        with server.client() as mailbox:
            for name in ("Mühle/Räder", "Spam"):
                mailbox.create_folder(name)
            mailbox.append("INBOX", message("Rye", "Rye comes on Tuesday.", message_id="<rye@x>"))
            mailbox.append("INBOX", message("Oats", "Oats are dear.", attachment="# Prices\n\nspelt 12"))
            mailbox.append("Mühle/Räder", message("Größe 水", "The wheel turns.", message_id="<wheel@x>"))
            for subject in (
                "Größe".encode("latin-1"),
                "Größe".encode(),
                b"=?gb2312?B?0KHC8w==?=",
                b"=?utf-8?B?AGE=?=",
                b"=?utf-8?B?a?=",
            ):
                mailbox.append("Mühle/Räder", message("Raw", "x").replace(b"Raw", subject))
            mailbox.append("Trash", message("Old", "Thrown away."))
            mailbox.append("Spam", message("Win", "Millions."))
        harness = await MailHarness.follow(mill, server, exclude=["spam*"])
        assert (await harness.run()).documents_ingested == 8
        # Bytes as they are, what the database can't store, and what is no base64.
        odd_titles = ["=?utf-8?B?a?=", "a", "Größe", "Größe", "小麦"]
        assert await harness.titles() == sorted(["Größe 水", "Oats", "Rye", *odd_titles])
        assert await harness.find("Tuesday", USER) == ["Rye"]
        assert await harness.find("spelt", USER) == ["list.md"]
        assert await harness.find("Tuesday", "eve@example.org") == []
        assert (await harness.run()).documents_ingested == 0

        (rye,) = await harness.fetch("select id from item where title = 'Rye'")
        with server.client() as mailbox:
            mailbox.select_folder("INBOX", readonly=True)
            assert len(mailbox.search("UNSEEN")) == 2
            mailbox.select_folder("INBOX")
            mailbox.copy(mailbox.search(["SUBJECT", "Rye"]), "Mühle/Räder")
            mailbox.delete_messages(mailbox.search("ALL"))
            mailbox.expunge()
            mailbox.append("INBOX", message("Barley", "Barley is new.", message_id="<barley@x>"))
        assert (await harness.run()).documents_ingested == 1
        assert await harness.titles() == sorted(["Barley", "Größe 水", "Rye", *odd_titles])
        assert await harness.fetch("select id from item where title = 'Rye'") == [rye]

        with server.client() as mailbox:
            mailbox.delete_folder("Mühle/Räder")
        await harness.run()
        assert await harness.titles() == ["Barley"]


async def test_mail_goes_as_it_passes_the_age_that_is_followed(mill: app.Gristmill) -> None:
    """The listing no longer named it, but it was still there when it was asked for, so it stayed forever."""
    old = datetime.now(UTC) - timedelta(days=20)
    with run_dovecot() as server:
        with server.client() as mailbox:
            mailbox.append("INBOX", message("Rye", "Rye.", message_id="<rye@x>"), msg_time=old)
            mailbox.append("INBOX", message("Oats", "Oats.", message_id="<oats@x>"))
        harness = await MailHarness.follow(mill, server, days=30)
        await harness.run()
        assert await harness.titles() == ["Oats", "Rye"]
        await harness.change(config={**server.config(), "days": 10})
        assert (await harness.run()).documents_pruned == 1
        assert await harness.titles() == ["Oats"]


async def test_archived_mail_at_google_is_in_the_folder_with_everything(mill: app.Gristmill) -> None:
    """It was never read, and a message that someone archived was removed. Drafts are in that folder, too."""
    with run_dovecot() as server:
        with server.client() as mailbox:
            mailbox.create_folder("[Gmail]/All Mail")
            for subject in ("Rye", "Oats"):
                mailbox.append("[Gmail]/All Mail", message(subject, "text", message_id=f"<{subject}@x>"))
            mailbox.append("INBOX", message("Rye", "text", message_id="<Rye@x>"))
            mailbox.append("[Gmail]/All Mail", message("Half", "text", message_id="<half@x>"), [rb"\Draft"])
            mailbox.create_folder("[Gmail]/Work")
            mailbox.append("[Gmail]/Work", message("Work", "text", message_id="<work@x>"))
        harness = await MailHarness.follow(mill, server, provider="google")
        await harness.run()
        assert await harness.titles() == ["Oats", "Rye"]
        with server.client() as mailbox:  # what archiving does
            mailbox.select_folder("INBOX")
            mailbox.delete_messages(mailbox.search("ALL"))
            mailbox.expunge()
        await harness.run()
        assert await harness.titles() == ["Oats", "Rye"]
        for folders, titles in (
            ({"folders": ["[Gmail]/Work"]}, ["Work"]),  # a name that looks like a glob
            ({"exclude": ["[Gmail]/Work"]}, []),
        ):
            await harness.change(config={**server.config(), "provider": "google", **folders})
            await harness.run()
            assert await harness.titles() == titles


async def test_a_folder_that_can_not_be_opened_does_not_keep_out_the_others(mill: app.Gristmill) -> None:
    """Servers name shared folders that an account may see and not open. Those after it were not read."""
    with run_dovecot() as server:
        with server.client() as mailbox:
            mailbox.create_folder("Closed")
            mailbox.append("Closed", message("Hidden", "text", message_id="<hidden@x>"))
            mailbox.create_folder("Open")
            mailbox.append("Open", message("Rye", "text", message_id="<rye@x>"))
        harness = await MailHarness.follow(mill, server)
        await harness.run()
        server.close_folder("Closed")
        with server.client() as mailbox:
            mailbox.append("Open", message("Oats", "text", message_id="<oats@x>"))
        run = await harness.wait_until_ended(await harness.start(allow_deletions=True))
        assert (run.status, run.documents_pruned) == ("completed_with_errors", 0)
        assert "The folder Closed can't be read" in await harness.log_text(run)
        assert await harness.titles() == ["Hidden", "Oats", "Rye"]


async def test_pages_of_a_folder_continue_where_they_were_and_begin_again_with_a_new_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cursor of a folder that was deleted and created again meanwhile starts that folder from its first message."""
    monkeypatch.setattr(imap, "_PAGE", 2)
    with run_dovecot() as server:
        with server.client() as mailbox:
            for number in range(5):
                mailbox.append("INBOX", message(f"{number}", "text", message_id=f"<{number}@x>"))
        monkeypatch.setattr(
            imaplib, "_MAXLINE", 10
        )  # a folder of 150,000 messages has longer lines than the library reads
        connector = open_kind(imap.KIND, server.config(), server.credentials())
        assert isinstance(connector, imap.ImapConnector)
        first = await connector._fetch_page(None)  # pyright: ignore[reportPrivateUsage]
        second = await connector._fetch_page(first.next_cursor)  # pyright: ignore[reportPrivateUsage]
        assert len({entry.ref.source_id for page in (first, second) for entry in page.entries}) == 4
        assert second.next_cursor is not None
        stale = second.next_cursor.replace('"validity": ', '"validity": 1')
        again = await connector._fetch_page(stale)  # pyright: ignore[reportPrivateUsage]
        assert [entry.ref for entry in again.entries] == [entry.ref for entry in first.entries]
        await connector.close()


async def test_a_refused_login_an_outage_and_a_private_address_have_clear_errors() -> None:
    """None of them contains the password; after an outage the same connector connects again."""
    with run_dovecot() as server:
        wrong = {**server.credentials(), "password": "wrong-secret"}
        connector = open_kind(imap.KIND, server.config(), wrong)
        with pytest.raises(CredentialsRejected, match="refuses the login of ann@") as refused:
            await connector.check()
        assert "wrong-secret" not in str(refused.value)
        await connector.close()
        form, secret = imap.ImapConfig(**server.config()), imap.ImapCredentials(**server.credentials())
        public_only = imap.KIND.open(form, secret, ConnectorLimits(allow_private=False))
        with pytest.raises(PrivateAddress):
            await public_only.check()
        connector = open_kind(imap.KIND, server.config(), server.credentials())
        assert (await connector.check()).name == USER
        assert await connector.find_problems() == []
    with pytest.raises(Transient, match="can't be reached") as outage:
        await connector.check()
    assert PASSWORD not in str(outage.value)
    with run_dovecot(server.port, server.folder):
        assert (await connector.check()).name == USER
    await connector.close()
    missing = open_kind(imap.KIND, {**server.config(), "folders": ["Nowhere"]}, server.credentials())
    with run_dovecot(server.port, server.folder):
        (problem,) = await missing.find_problems()
        assert "The folder Nowhere does not exist" in problem
    await missing.close()

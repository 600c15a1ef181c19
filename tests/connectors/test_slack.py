"""Slack: what messages become, which errors it returns with status 200, and the emulator that others wrote."""

from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from gristmill import app
from gristmill.connectors.port import Attachment, Checkpoint, Stream
from gristmill.connectors.slack import connector as slack
from gristmill.connectors.slack.api import FILES_URLS, SlackUser
from gristmill.connectors.slack.messages import to_markdown
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import Unreadable
from tests.connectors.fakes.slack import FakeSlack, Message
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.connectors.servers.emulator import TOKEN, EmulatedTool, emulate

ANN = {"U1": SlackUser("U1", "Ann Lee", "ann@example.org")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi <@U1> and <@U9|bob>, see <#C1|general> <!here>", "hi @Ann Lee and @bob, see #general @here"),
        (
            "<https://a.example/x?a=1&amp;b=2|the *plan*> a&lt;b",
            "[the **plan**](https://a.example/x?a=1&b=2) a<b",
        ),
        ("*bold* 2*3*4 `*code* &gt;`", "**bold** 2*3*4 `*code* >`"),
        ("<mailto:x@a.example|x@a.example> <https://a.example>", "x@a.example https://a.example"),
    ],
)
def test_slack_markup_becomes_markdown(text: str, expected: str) -> None:
    body = to_markdown([{"ts": "1767225600.000100", "user": "U1", "text": text}], ANN)
    assert body == f"**Ann Lee**, 2026-01-01 00:00:\n\n{expected}"


def test_bots_write_in_blocks_and_attachments() -> None:
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "rye"}, "fields": [{"text": " oats"}]}]
    message = {
        "ts": "1767225600.000100",
        "bot_profile": {"name": "CI"},
        "blocks": blocks,
        "attachments": [{"title": "Build", "fields": [{"title": "state", "value": "green"}]}],
    }
    assert to_markdown([message], {}).endswith(
        "**CI**, 2026-01-01 00:00:\n\nrye\noats\n\nBuild\n\nstate: green"
    )


def test_what_apps_write_in_blocks_is_not_replaced_by_the_summary_that_slack_shows() -> None:
    """Of such a message, only "This content can't be displayed." or "[no preview available]" was read."""
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "*Disk* is full"}}
    buttons = {
        "type": "actions",
        "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Mute"}}],
    }
    shown = {
        "type": "rich_text",
        "elements": [{"type": "text", "text": "hello "}, {"type": "text", "text": "all"}],
    }
    messages: list[tuple[dict[str, Any], str]] = [
        ({"text": "This content can't be displayed.", "blocks": [section, buttons]}, "**Disk** is full"),
        (
            {"text": "", "attachments": [{"fallback": "[no preview available]", "blocks": [section]}]},
            "**Disk** is full",
        ),
        ({"text": "Alert", "blocks": [section, buttons]}, "Alert\n\n**Disk** is full"),
        ({"text": "*Disk* is full now", "blocks": [section]}, "**Disk** is full now"),
        ({"text": "hello all", "blocks": [shown]}, "hello all"),
        ({"text": "", "blocks": [shown]}, "hello all"),
    ]
    for message, expected in messages:
        text = to_markdown([{"ts": "1767225600.000100", "user": "U1", **message}], ANN)
        assert text == f"**Ann Lee**, 2026-01-01 00:00:\n\n{expected}"


async def test_documents_files_and_errors_of_a_workspace() -> None:
    """Files become attachments; `days` leaves older messages out; every error of Slack has its meaning."""
    with serve_fake(FakeSlack()) as tool:
        assert tool.site is not None
        url = f"{tool.site.url}/files/plan.txt"
        tool.files["plan.txt"] = b"wheat"
        file = {"id": "F1", "name": "plan.txt", "mode": "hosted", "size": 5, "url_private": url}
        gone = {"id": "F2", "name": "old.txt", "mode": "tombstone"}
        today = f"{tool.now.timestamp():.6f}"
        tool.messages["C1"].append(Message(today, "see <@U2>", files=[file, gone]))
        config = tool.config()
        documents = await read_all(open_kind(slack.KIND, config, tool.credentials()))
        day = documents[f"day:C1:{tool.now:%Y-%m-%d}"]
        assert day.attachments == {"plan.txt": b"wheat"}
        assert "see @Bob B." in day.text
        assert day.document.title == f"#general {tool.now:%Y-%m-%d}"
        assert (day.document.url or "").startswith("https://acme.slack.com/archives/C1/p")
        # The first run reads days from the listing; a later one names them with the same marks.
        stream = Stream("channel:C1", "conversation")
        async with open_temporarily(slack.KIND, config, tool.credentials()) as connector:
            marks = {
                listed.ref.source_id: listed.mark
                async for batch in connector.sync({stream: Checkpoint(1, {})})
                for listed in batch.present
            }
        assert {key: read.document.mark for key, read in documents.items() if ":C1:" in key} == {
            key: mark for key, mark in marks.items() if ":C1:" in key
        }
        recent = await read_all(
            open_kind(slack.KIND, {**config, "days": 2, "channels": ["#general"]}, tool.credentials())
        )
        assert 0 < len(recent) < len([key for key in documents if ":C1:" in key])
        async with open_temporarily(
            slack.KIND, {**config, "channels": ["no-such"]}, tool.credentials()
        ) as connector:
            assert "no-such does not exist" in (await connector.find_problems())[0]
        for code, error in (
            ("ratelimited", RateLimited),
            ("token_revoked", CredentialsRejected),
            ("missing_scope", Unreadable),
        ):
            answer = tool.respond({"ok": False, "error": code, "needed": "users:read"}, Retry_After="30")
            tool.add_rule(lambda _: True, lambda answer=answer: answer)
            async with open_temporarily(slack.KIND, config, tool.credentials()) as connector:
                with pytest.raises(error):
                    await connector.check()


async def test_what_was_read_of_a_channel_stays_when_it_is_archived(mill: app.Gristmill) -> None:
    """Slack removes the app from it, but shows it to people as before: all of its documents were removed here."""
    with serve_fake(FakeSlack()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        tool.archived.add("C1")
        run = await harness.sync()
        assert (run.status, run.documents_pruned) == ("success", 0)
        assert "#general is archived" in await harness.log_text(run)
        assert (await harness.sync(dry_run=True)).plan == {
            **dict.fromkeys(("add", "change", "prune", "errors", "characters"), 0),
            "unchanged": 0,
            "held": False,
        }
        await harness.refresh_permissions()
        await harness.assert_matches_tool()
        run = await harness.sync(force=True)
        assert (run.status, run.documents_pruned) == ("completed_with_errors", 0)
        tool.archived.clear()
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()


async def test_a_log_in_page_is_not_taken_for_a_file() -> None:
    """Without the scope files:read, Slack returns it with status 200."""
    with serve_fake(FakeSlack()) as tool:
        assert tool.site is not None
        async with open_temporarily(slack.KIND, tool.config(), tool.credentials()) as connector:
            for name, media_type, is_refused in (
                ("plan.pdf", "application/pdf", True),
                ("page.html", "text/html", False),
            ):
                tool.files[name] = b"<!DOCTYPE html><html><title>Sign in</title></html>"
                file = Attachment("F1", name, None, media_type, {"url": f"{tool.site.url}/files/{name}"})
                with pytest.raises(Unreadable, match="files:read") if is_refused else nullcontext():
                    assert [piece async for piece in connector.download(file)] == [tool.files[name]]


async def test_the_token_goes_to_the_host_of_the_files_and_to_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of GovSlack got none, and answered with its log-in page."""
    assert FILES_URLS["https://slack-gov.com/api"] == "https://files.slack-gov.com"
    with serve_fake(FakeSlack()) as tool:
        assert tool.site is not None
        tool.files["plan.txt"] = b"wheat"
        file = Attachment("F1", "plan.txt", locator={"url": f"{tool.site.elsewhere}/files/plan.txt"})
        async with open_temporarily(slack.KIND, tool.config(), tool.credentials()) as connector:
            with pytest.raises(CredentialsRejected):
                await anext(connector.download(file))
        monkeypatch.setitem(FILES_URLS, f"{tool.site.url}/api", tool.site.elsewhere)
        async with open_temporarily(slack.KIND, tool.config(), tool.credentials()) as connector:
            assert [piece async for piece in connector.download(file)] == [b"wheat"]


@pytest.fixture
def emulator(cache_dir: Path) -> Generator[EmulatedTool]:
    """Slack as others emulate it."""
    users = [{"name": "ann", "real_name": "Ann", "email": "ann@example.org"}]
    seed = {"team": {"name": "Acme", "domain": "acme"}, "users": users, "channels": [{"name": "plans"}]}
    with emulate({"tokens": {TOKEN: {"login": "ann", "scopes": []}}, "slack": seed}, cache_dir) as tool:
        yield tool


async def test_the_emulator_is_read(emulator: EmulatedTool) -> None:
    """A message, a thread, an edit and a deletion, in Slack as others emulate it."""
    emulator.post("/api/conversations.create", name="deep", is_private=True)
    first = emulator.post("/api/chat.postMessage", channel="deep", text="rye")["ts"]
    root = emulator.post("/api/chat.postMessage", channel="deep", text="wheat")["ts"]
    emulator.post("/api/chat.postMessage", channel="deep", text="spelt", thread_ts=root)
    config, secret = {"baseUrl": f"{emulator.url}/api", "channels": ["deep"]}, {"token": emulator.token}
    documents = await read_all(open_kind(slack.KIND, config, secret))
    texts = {key.partition(":")[0]: read.text for key, read in documents.items()}
    assert ("rye" in texts["day"], "wheat" in texts["thread"], "spelt" in texts["thread"]) == (
        True,
        True,
        True,
    )
    channel = next(iter(documents)).split(":")[1]
    emulator.post("/api/chat.update", channel=channel, ts=root, text="barley")
    emulator.post("/api/chat.delete", channel=channel, ts=first)
    documents = await read_all(open_kind(slack.KIND, config, secret))
    assert [key.partition(":")[0] for key in documents] == ["thread"]
    assert "barley" in next(iter(documents.values())).text

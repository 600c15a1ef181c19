"""Google Drive: exports, folders, permissions of every type, service accounts, and the emulator that others wrote."""

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey

from gristmill.connectors import google_drive
from gristmill.connectors.port import Attachment, Audience
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import Unreadable
from tests.connectors.fakes.drives import FOLDER, READER, FakeGoogleDrive
from tests.connectors.fakes.tool import SECRET, FakeCall, serve_fake
from tests.connectors.servers.emulator import TOKEN, EmulatedTool, emulate


async def test_documents_of_google_are_exported_and_folders_limit_what_is_followed() -> None:
    with serve_fake(FakeGoogleDrive()) as tool:
        documents = await read_all(
            open_kind(google_drive.KIND, {**tool.config(), "folders": ["guides-my"]}, tool.credentials())
        )
        plan = documents["file:my:doc"]
        assert (plan.document.title, plan.text) == ("guides/Plan", tool.files["doc"].text)
        assert plan.document.file is not None
        assert (plan.document.file.name, tool.exports) == ("Plan.md", ["text/markdown"])
        titles = {read.document.title for read in documents.values()}
        assert all(title.startswith("guides/") for title in titles)
        assert any(title.startswith("guides/deep er/") for title in titles)
        wrong = {**tool.config(), "drives": ["my", "Nowhere"], "folders": ["gone"]}
        async with open_temporarily(google_drive.KIND, wrong, tool.credentials()) as connector:
            problems = await connector.find_problems()
        assert ["Nowhere" in problems[0], "gone" in problems[1]] == [True, True]


async def test_forms_are_not_followed_whatever_the_globs_are() -> None:
    """They have nothing to download: each was an error of every run where `files` has `*`, or the name of its folder."""
    with serve_fake(FakeGoogleDrive()) as tool:
        form = replace(tool.files["doc"], id="form", media_type="application/vnd.google-apps.form")
        tool.files["form"] = form
        config = {**tool.config(), "files": ["*", "guides"]}
        documents = await read_all(open_kind(google_drive.KIND, config, tool.credentials()))
        assert "file:my:picture" in documents
        assert "file:my:form" not in documents


async def test_pictures_of_a_document_are_left_out_and_do_not_keep_it_from_being_exported() -> None:
    """Google puts them into the markdown in base64, and refuses exports of more than 10 MB. A refusal says why."""
    picture = f"<data:image/png;base64,{'iVBOR' * 50_000}>"
    text = "# Plan\n\nrye ![The *wheel*][image1]\n\nsee [image1] data:image/png\n\n![][image2]\n"
    with serve_fake(FakeGoogleDrive()) as tool:
        tool.files["doc"].text = f"{text}\n[image1]: {picture}\n\n[image2]: {picture}\n"
        async with open_temporarily(google_drive.KIND, tool.config(), tool.credentials()) as connector:

            async def export() -> str:
                file = Attachment("1", "Plan.md", locator={"id": "doc", "export": "text/markdown"})
                return b"".join([piece async for piece in connector.download(file)]).decode()

            assert (await export()).split("\n\n")[1:3] == ["rye The *wheel*", "see [image1] data:image/png"]
            assert "iVBOR" not in await export()
            tool.exports.clear()
            reason = {"error": {"code": 403, "errors": [{"reason": "exportSizeLimitExceeded"}]}}
            tool.add_rule(
                lambda call: call.params.get("mimeType") == "text/markdown", lambda: tool.respond(reason, 403)
            )
            await export()
            assert tool.exports == ["text/plain"]
            tool.add_rule(lambda call: "mimeType" in call.params, lambda: tool.respond(reason, 403), times=2)
            with pytest.raises(Unreadable, match="larger than 10 MB"):
                await export()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, Audience("", emails=frozenset({"ann@a.org"}), groups=frozenset({"eng@a.org"}))),
        (
            {"domains": ["a.org"]},
            Audience("", everybody=True, emails=frozenset({"ann@a.org"}), groups=frozenset({"eng@a.org"})),
        ),
    ],
)
async def test_permissions_name_people_groups_and_domains(config: dict[str, Any], expected: Audience) -> None:
    """Links don't make a file public, and what can't be read is for admins only."""
    permissions = [
        {"id": "1", "type": "user", "emailAddress": "Ann@a.org"},
        {"id": "2", "type": "user", "emailAddress": "old@a.org", "deleted": True},
        {"id": "3", "type": "group", "emailAddress": "eng@a.org"},
        {"id": "4", "type": "domain", "domain": "a.org", "allowFileDiscovery": True},
        {"id": "5", "type": "anyone", "allowFileDiscovery": False},
        {"id": "6", "type": "user", "emailAddress": "press@a.org", "view": "published"},
    ]
    with serve_fake(FakeGoogleDrive()) as tool:
        file = tool.files["doc"]

        def is_the_file(call: FakeCall) -> bool:
            return call.path.endswith("/files/doc")

        shown = tool.show(file)
        answers = [
            {**shown, "permissions": permissions},
            {name: shown[name] for name in shown if name != "permissions"},
        ]
        audiences: list[Audience] = []
        for answer in answers:
            tool.add_rule(is_the_file, lambda answer=answer: tool.respond(answer))
            async with open_temporarily(
                google_drive.KIND, {**tool.config(), **config}, tool.credentials()
            ) as connector:
                assert isinstance(connector, google_drive.GoogleDriveConnector)
                audiences.append((await connector.find_file("my", "doc")).audience)
        assert (audiences[0].everybody, audiences[0].emails, audiences[0].groups) == (
            expected.everybody,
            expected.emails,
            expected.groups,
        )
        assert not audiences[1].complete


async def test_a_service_account_signs_for_its_tokens() -> None:
    """The assertion is signed and names scope and user; a refusal is a refusal of the credentials; limits come with status 403."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    with serve_fake(FakeGoogleDrive()) as tool:
        assert tool.site is not None
        key = {
            "private_key": pem,
            "client_email": "robot@p.example",
            "token_uri": f"{tool.site.elsewhere}/token",
        }
        claims: list[dict[str, Any]] = []

        def answer_with_tokens(request: Any) -> Any:
            if request.path != "/token":
                return tool.answer(request)
            form = dict(httpx.QueryParams(request.body.decode()))
            assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            claims.append(jwt.decode(form["assertion"], RSAKey.import_key(pem), algorithms=["RS256"]).claims)
            if len(claims) > 1:
                return tool.respond({"error": "invalid_grant"}, 400)
            return tool.respond({"access_token": SECRET, "expires_in": 3600})

        tool.site.fallback = answer_with_tokens
        credentials = {"serviceAccountKey": json.dumps(key)}
        config = {**tool.config(), "impersonate": "ann@example.org"}
        assert len(await read_all(open_kind(google_drive.KIND, config, credentials))) == len(
            tool.expected_documents()
        )
        assert (claims[0]["sub"], claims[0]["scope"]) == ("ann@example.org", google_drive.SCOPE)
        async with open_temporarily(google_drive.KIND, config, credentials) as connector:
            with pytest.raises(CredentialsRejected):
                await connector.check()
        tool.site.fallback = tool.answer
        reason = {"error": {"code": 403, "errors": [{"reason": "userRateLimitExceeded"}]}}
        tool.add_rule(lambda _: True, lambda: tool.respond(reason, 403))
        async with open_temporarily(google_drive.KIND, tool.config(), tool.credentials()) as connector:
            with pytest.raises(RateLimited):
                await connector.check()
        with pytest.raises(CredentialsRejected):
            open_kind(google_drive.KIND, config, {"serviceAccountKey": "{}"})


@pytest.fixture
def emulator(cache_dir: Path) -> Generator[EmulatedTool]:
    """Google as others emulate it: files without permissions, exports and shared drives."""
    user = {"email": READER, "name": "Ann"}
    items = [
        {"id": "d1", "user_email": READER, "name": "Docs", "mime_type": FOLDER, "parent_ids": ["root"]},
        {
            "id": "f1",
            "user_email": READER,
            "name": "a.md",
            "mime_type": "text/markdown",
            "parent_ids": ["d1"],
        },
    ]
    seed: dict[str, Any] = {
        "tokens": {TOKEN: {"login": READER, "scopes": []}},
        "google": {"users": [user], "drive_items": items},
    }
    with emulate(seed, cache_dir) as tool:
        yield tool


async def test_the_emulator_is_read(emulator: EmulatedTool) -> None:
    config = {"baseUrl": f"{emulator.url}/drive/v3", "drives": ["my"]}
    documents = await read_all(open_kind(google_drive.KIND, config, {"token": emulator.token}))
    assert {key: read.document.title for key, read in documents.items()} == {"file:my:f1": "Docs/a.md"}
    emulator.patch("/drive/v3/files/f1", name="b.md")
    documents = await read_all(open_kind(google_drive.KIND, config, {"token": emulator.token}))
    assert {key: read.document.title for key, read in documents.items()} == {"file:my:f1": "Docs/b.md"}

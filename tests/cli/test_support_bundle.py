"""`gristmill support-bundle`: what it has, and that no secret and no document is in it."""

import asyncio
import json
import zipfile
from pathlib import Path

import httpx

from gristmill.cli.support_bundle import remove_secrets
from tests.gristmill_process import environment, run_command, run_serve
from tests.wait_until import wait_until

PLANTED = "PLANTEDSECRET"


def planted(name: str) -> str:
    return f"{PLANTED}-{name}-0123456789"


def wait_until_failed(http: httpx.Client, base: str) -> None:
    def failures() -> int:
        return http.get(f"/api/knowledge-bases/{base}").json()["leafCounts"].get("failed", 0)

    async def has_failed() -> bool:
        return failures() > 0

    asyncio.run(wait_until(has_failed))


def test_the_bundle_has_what_helps_and_neither_secrets_nor_documents(
    data_dir: Path, cache_dir: Path, tmp_path: Path, quick_embedder: dict[str, str]
) -> None:
    """Secrets are planted in every secret setting, in addresses, in the environment, in logged lines and in documents."""
    embedders = json.loads(quick_embedder["embedders"])
    embedders["quick"]["api_key"] = planted("embedder")
    env = environment(
        data_dir,
        cache_dir,
        **{**quick_embedder, "embedders": json.dumps(embedders)},
        access_log="true",
        chat_url=f"http://user:{planted('chat-address')}@127.0.0.1:9/v1?key={planted('query')}",
        chat_api_key=planted("chat"),
        vision_api_key=planted("vision"),
        reranker_api_key=planted("reranker"),
        transcription_api_key=planted("transcription"),
        index_prefix="mill",
    )
    env["AWS_SECRET_ACCESS_KEY"] = planted("aws")
    with run_serve(env, log=tmp_path / "log") as server, server.client() as http:
        base = http.post("/api/knowledge-bases", json={"name": f"{PLANTED} base"}).json()["id"]
        notes = [{"type": "note", "content": f"{PLANTED} text of a note"}]
        http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})
        files = [("files", (f"{PLANTED}.pdf", b"%PDF-1.4 " + bytes([0, 1, 2, 255]) * 50))]
        http.post(f"/api/knowledge-bases/{base}/files", files=files)
        wait_until_failed(http, base)  # its name is in the log then
        assert PLANTED in (data_dir / "log/worker-1.log").read_text()
        http.post("/api/session", json={"key": "gm_" + planted("session").replace("-", "_")})
        http.post(
            "/api/connectors",
            json={
                "name": "hub",
                "kind": "github",
                "config": {"repositories": ["a/b"]},
                "credentials": {"token": planted("connector")},
                "baseIds": [base],
            },
        )
        http.get("/api/knowledge-bases", headers={"Authorization": f"Bearer {planted('bearer')}"})
        line = f'{{"at": "2030-01-01", "message": "could not connect to postgresql://mill:{planted("logged")}@db/mill"}}'
        with (data_dir / "log/server-1.log").open("a") as log:
            log.write(f"{line}\n")
        ended = run_command(env, "support-bundle", str(tmp_path / "bundle.zip"))
        assert ended.returncode == 0, ended.stderr
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        parts = {name.rpartition("/")[2]: bundle.read(name).decode() for name in bundle.namelist()}
    for name, text in parts.items():
        assert PLANTED not in text, (name, text[max(0, text.find(PLANTED) - 200) :][:400])
    assert set(parts) == {"gristmill.json", "settings.json", "doctor.json", "database.json", "log.txt"}
    settings = json.loads(parts["settings.json"])
    assert (settings["chat_api_key"], settings["index_prefix"]) == ("set", "mill")
    assert settings["chat_url"] == "http://127.0.0.1:9/v1"
    assert settings["embedders"]["quick"]["api_key"] == "set"
    assert {check["what"] for check in json.loads(parts["doctor.json"])} >= {"settings", "disk", "database"}
    database = json.loads(parts["database.json"])
    assert {row["base"] for row in database["items"]} == {base}
    assert database["migrations"][-1]["number"] >= 28
    assert "could not connect to postgresql" in parts["log.txt"]
    assert '"logger": "gristmill.access"' in parts["log.txt"]


def test_a_database_that_does_not_start_is_named(data_dir: Path, cache_dir: Path, tmp_path: Path) -> None:
    env = environment(data_dir, cache_dir, database_url="postgresql://mill:hidden-word@127.0.0.1:9/mill")
    ended = run_command(env, "support-bundle", str(tmp_path / "bundle.zip"), "--json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["missing"] == ["database"]
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        text = "".join(bundle.read(name).decode() for name in bundle.namelist())
    assert "hidden-word" not in text


def test_whatever_looks_like_a_secret_is_removed() -> None:
    lines = [
        "Authorization: Bearer abcdefgh12345678",
        "key gm_abcdefghijklmnopqrstuvwxyz0123456789",
        "postgresql://mill:wheel-and-stone@db/mill",
        "password=wheel-and-stone",
        "token ghp_abcdefghijklmnop1234",
        '{"api_key": "wheel-and-stone"}',
    ]
    cleaned = remove_secrets("\n".join(lines), ["known secret"])
    for secret in ("abcdefgh", "wheel-and-stone"):
        assert secret not in cleaned, cleaned
    assert remove_secrets("the known secret is out", ["known secret"]) == "the [removed] is out"

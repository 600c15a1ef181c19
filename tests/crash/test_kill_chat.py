"""kill -9 while a chat model writes an answer: the client sees the connection end, and nothing is left behind."""

from pathlib import Path

import httpx2
import openai
import psycopg
import pytest

from tests.answers.chat_endpoint import serve_chat
from tests.compat.openai_clients import sync_client
from tests.gristmill_process import environment, run_serve

QUESTION = "What is ground into flour?"


def test_a_killed_answer_leaves_nothing_and_can_be_asked_for_again(
    database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    with serve_chat() as chat:
        chat.reply = lambda _: ["It is ", "wheat [1]."]
        chat.may_go_on.clear()
        env = environment(
            tmp_path / "data",
            cache_dir,
            database_url=database_url,
            chat_url=chat.url,
            chat_model="quern",
            **quick_embedder,
        )
        log = tmp_path / "log"
        with run_serve(env, log=log) as server, sync_client(server.url) as client:
            store = client.vector_stores.create(name="grain")
            wheat = ("wheat.md", b"Wheat is ground into flour.")
            client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=wheat)
            stream = client.chat.completions.create(
                model="gristmill:grain", messages=[{"role": "user", "content": QUESTION}], stream=True
            )
            text = ""
            while "It is" not in text:
                text += next(stream).choices[0].delta.content or ""
            tables = table_sizes(database_url)
            server.kill()
            with pytest.raises((openai.OpenAIError, httpx2.HTTPError)):
                list(stream)
        chat.may_go_on.set()
        assert table_sizes(database_url) == tables
        with run_serve(env, log=log) as server, sync_client(server.url) as client:
            answer = client.chat.completions.create(
                model="gristmill:grain", messages=[{"role": "user", "content": QUESTION}]
            )
            assert (answer.choices[0].message.content or "").startswith("It is wheat [1].")
            with server.client() as http:
                assert http.get("/api/health/invariants").json() == {"violations": []}


def table_sizes(database_url: str) -> dict[str, int]:
    """How many rows the tables have in which an answer could leave something."""
    with psycopg.connect(database_url) as connection:
        return {
            table: (connection.execute(f"select count(*) from {table}".encode()).fetchone() or (0,))[0]
            for table in ("audit", "idempotency", "item", "stored_file", "outbox")
        }

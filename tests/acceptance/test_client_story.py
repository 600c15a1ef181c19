"""The life of a base from creation to deletion, through the client and a real server."""

from pathlib import Path

import pytest

from gristmill.client import Client, Refused
from tests.gristmill_process import environment, run_serve

pytestmark = pytest.mark.slow


def test_a_program_adds_waits_searches_reads_rebuilds_and_deletes(
    database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path
) -> None:
    """An accepted item becomes searchable, stays so during a reindex, and is gone once it is deleted."""
    folder = tmp_path / "mill"
    folder.mkdir()
    (folder / "stones.md").write_text("# Stones\n\nBoth stones are dressed in spring.")
    (folder / "grain.txt").write_text("Boats bring our grain on Tuesdays.")
    (tmp_path / "letter.txt").write_text("Dear miller, the wheel is broken.")
    env = environment(data_dir, cache_dir, database_url=database_url)
    with run_serve(env, log=tmp_path / "log") as server, Client(server.url, server.key) as mill:
        base = mill.base_named("mill", create=True)["id"]
        folder_items = mill.add(base, [{"type": "directory", "path": str(folder)}])["created"]
        uploaded_items = mill.upload(base, [tmp_path / "letter.txt"])["created"]
        statuses = mill.wait(base, [item["id"] for item in folder_items + uploaded_items])
        assert {item["status"] for item in statuses.values()} == {"completed"}

        hit = mill.run(lambda client: client.search("when are stones dressed", [base]))["hits"][0]
        assert hit["title"] == "stones.md"
        text = mill.run(lambda client: client.content(hit["itemId"]))
        assert text[hit["source"]["start"] : hit["source"]["end"]] == hit["text"]

        everything = mill.run(lambda client: client.items(base, parentId="*"))
        assert sorted(item["title"] for item in everything) == [
            "grain.txt",
            "letter.txt",
            "mill",
            "stones.md",
        ]
        rebuilt = mill.run(lambda client: client.reindex(base, [uploaded_items[0]["id"]]))
        assert rebuilt["rootIds"] == [uploaded_items[0]["id"]]
        hits = mill.run(lambda client: client.search("wheel is broken", [base]))["hits"]
        assert (
            hits[0]["itemId"] == uploaded_items[0]["id"]
        )  # the old version is searchable until the new one is complete

        mill.run(lambda client: client.delete(base, [folder_items[0]["id"]]))
        remaining = mill.run(lambda client: client.items(base, parentId="*"))
        assert [item["title"] for item in remaining] == ["letter.txt"]
        with pytest.raises(Refused) as error:
            mill.run(lambda client: client.item(hit["itemId"]))
        assert (error.value.code, error.value.status) == ("item_not_found", 404)
        assert mill.call("GET", "/health/invariants") == {"violations": []}

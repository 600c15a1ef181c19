"""Very large documents are indexed, with a warning."""

from pathlib import Path

import httpx
import pytest

from gristmill.ingest.pipeline import LARGE_DOCUMENT
from gristmill.settings import Settings
from tests.api_calls import add_items, make_base, search, wait_until_ended


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"large_document_mb": 1})


def test_a_document_is_very_large_from_100_mebibytes_on() -> None:
    """S4-55."""
    assert Settings().large_document_mb << 20 == LARGE_DOCUMENT == 100 * 2**20


async def test_a_very_large_document_gets_a_warning_and_is_searchable(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """S4-55: the threshold warns, and does not reject; also when the unchanged document is indexed again."""
    large, small = tmp_path / "large.txt", tmp_path / "small.txt"
    large.write_text("emmer\n" + "x" * (1 << 20))
    small.write_text("emmer\n" + "x" * 1000)
    base = await make_base(http)
    result = await add_items(http, base, *({"type": "file", "path": str(path)} for path in (large, small)))
    items = [await wait_until_ended(http, item["id"]) for item in result["created"]]
    assert [item["status"] for item in items] == ["completed"] * 2
    assert [item["warnings"] for item in items] == [["large:1"], []]
    assert len(await search(http, base, "emmer", mode="text")) == 2
    await http.post(f"/api/knowledge-items/{items[0]['id']}/reprocess")
    again = await wait_until_ended(http, items[0]["id"])
    assert again["warnings"] == ["large:1"]

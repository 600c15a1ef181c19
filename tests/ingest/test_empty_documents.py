"""Documents that have bytes but no text: the policy of their base."""

from pathlib import Path
from typing import Any

import httpx

from tests.api_calls import add_items, assert_healthy, make_base, wait_until_ended


async def add_blank(http: httpx.AsyncClient, base: str, path: Path) -> dict[str, Any]:
    (item,) = (await add_items(http, base, {"type": "file", "path": str(path)}))["created"]
    return await wait_until_ended(http, item["id"])


async def test_a_document_without_text_fails_or_is_completed_with_a_warning_as_its_base_wants(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """S1-11: never silent, and each base has its own policy, also for equal bytes."""
    blank, empty = tmp_path / "blank.txt", tmp_path / "empty.txt"
    blank.write_text(" \n" * 50)
    empty.write_text("")
    strict = await make_base(http, "strict")
    lenient = await make_base(http, "lenient", settings={"emptyDocuments": "warn"})
    settings_json = (await http.get(f"/api/knowledge-bases/{lenient}")).json()["settings"]
    assert settings_json["emptyDocuments"] == "warn"
    item = await add_blank(http, lenient, blank)
    assert (item["status"], item["error"]) == ("completed", None)
    assert "no_text" in item["warnings"]
    item = await add_blank(http, strict, blank)
    assert (item["status"], item["error"]["code"]) == ("failed", "no_text")
    for base in (strict, lenient):
        item = await add_blank(http, base, empty)
        assert (item["status"], item["warnings"]) == ("completed", ["empty"])
    await assert_healthy(http)

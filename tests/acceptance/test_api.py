"""The contract of the API: its responses, and that a rejected request stores nothing."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api_calls import add_items, assert_healthy, assert_problem, make_base, search, wait_until_ended
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


async def test_a_note_becomes_a_hit(http: httpx.AsyncClient) -> None:
    """S1-02, S1-03, S3-01, S4-63; S4-03."""
    base = await make_base(http)
    result = await add_items(
        http, base, {"type": "note", "title": "Mill", "content": "# Stones\n\nThe millstone grinds slowly."}
    )
    (item,) = result["created"]
    assert (item["status"], item["phase"], item["progress"], item["version"]) == (
        "processing",
        "pending",
        0,
        None,
    )
    item = await wait_until_ended(http, item["id"])
    assert (item["status"], item["phase"], item["progress"]) == ("completed", "completed", 100)
    assert (item["version"], item["chunkCount"], item["error"], item["warnings"]) == (1, 1, None, [])
    (hit,) = await search(http, base, "millstones")
    assert (hit["itemId"], hit["title"], hit["headings"], hit["version"]) == (
        item["id"],
        "Mill",
        ["Stones"],
        1,
    )
    assert [hit["text"][start:end] for start, end in hit["highlights"]] == ["millstone"]
    content = (await http.get(f"/api/knowledge-items/{item['id']}/content")).text
    assert content[hit["source"]["start"] : hit["source"]["end"]] == hit["text"]


async def test_a_chinese_word_of_two_characters_is_found(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    result = await add_items(
        http,
        base,
        {"type": "note", "content": "我们的知识库不会丢失任何文档。"},
        {"type": "note", "content": "今天天气很好。"},
    )
    for item in result["created"]:
        await wait_until_ended(http, item["id"])
    (hit,) = await search(http, base, "文档", mode="text")
    assert hit["itemId"] == result["created"][0]["id"]


async def test_files_on_disk_are_accepted_or_rejected_one_by_one(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """S4-56, S4-41; S1-11: an empty source completes, and says that it was empty."""
    (tmp_path / "good.md").write_text("# Good\n\nWheat flour.")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.bin").write_bytes(b"\0\1\2")
    base = await make_base(http)
    names = ["good.md", "gone.md", "empty.txt", "binary.bin"]
    result = await add_items(http, base, *({"type": "file", "path": str(tmp_path / name)} for name in names))
    assert [(entry["index"], entry["error"]["code"]) for entry in result["failed"]] == [(1, "source_gone")]
    good, empty, binary = [await wait_until_ended(http, item["id"]) for item in result["created"]]
    assert (good["status"], good["source"]["path"]) == ("completed", str(tmp_path / "good.md"))
    assert (empty["status"], empty["warnings"], empty["chunkCount"]) == ("completed", ["empty"], 0)
    assert (binary["status"], binary["phase"], binary["error"]["code"]) == (
        "failed",
        "failed",
        "unsupported_type",
    )
    assert [hit["itemId"] for hit in await search(http, base, "flour")] == [good["id"]]


async def test_bad_requests_are_problem_documents_and_store_nothing(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    url = f"/api/knowledge-bases/{base}/items"
    note = {"type": "note", "content": "fine"}
    bad: list[tuple[Any, str]] = [
        ({"items": [{"type": "note", "content": " \n"}]}, "items[0].content"),
        ({"items": [{"type": "note", "content": "a\0b"}]}, "items[0].content"),
        ({"items": [{"type": "song", "content": "la"}]}, "items[0].type"),
        ({"items": [{"type": "note", "content": 7}]}, "items[0].content"),
        ({"items": [{"type": "note", "content": "x", "colour": "red"}]}, "items[0].colour"),
        ({"items": [{"type": "file", "path": "relative.md"}, {"type": "note"}]}, "items[0].path"),
        ({"items": ["fine"]}, "items[0]"),
        ({"items": note}, "items"),
        ({}, "items"),
        ([], ""),
    ]
    for body, field in bad:
        problem = assert_problem(await http.post(url, json=body), 422, "invalid_request")
        assert problem["errors"][0]["field"] == field
    assert_problem(
        await http.post(url, content=b"{not json", headers={"content-type": "application/json"}),
        422,
        "malformed_json",
    )
    surrogate = b'{"items": [{"type": "note", "content": "\\ud800"}]}'
    assert_problem(
        await http.post(url, content=surrogate, headers={"content-type": "application/json"}),
        422,
        "invalid_request",
    )
    assert (await http.get(url)).json() == {"items": [], "nextCursor": None}


async def test_one_bad_entry_does_not_reject_the_others(http: httpx.AsyncClient, tmp_path: Path) -> None:
    """S4-56: each entry of a batch is accepted or rejected by itself, with its index, its path or URL as it was sent, a code
    and a message."""
    base = await make_base(http)
    good = [{"type": "url", "url": f"http://mill.invalid/{n}"} for n in range(99)]
    result = await add_items(http, base, *good[:50], {"type": "url", "url": "htp://oops"}, *good[50:])
    assert len(result["created"]) == 99
    (failures,) = result["failed"]
    assert (failures["index"], failures["path"], failures["error"]["code"]) == (
        50,
        "htp://oops",
        "invalid_url",
    )
    assert "http or https" in failures["error"]["message"]

    folder = tmp_path / "docs"
    folder.mkdir()
    entries: list[Any] = [
        {"type": "note", "content": "fine"},
        {"type": "note", "content": " ", "title": "Blank"},
        {"type": "file", "path": f"{folder}/../docs/gone.md"},
        {"type": "file", "path": "relative.md"},
        {"type": "song", "title": "La"},
        {"type": "note", "content": "x", "acl": ["everyone"]},
        {"type": "url", "url": "http://mill.invalid/\ud800"},
        7,
    ]
    content = json.dumps({"items": entries}).encode()
    response = await http.post(
        f"/api/knowledge-bases/{base}/items", content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code == 202, response.text
    assert [item["title"] for item in response.json()["created"]] == ["fine"]
    failures = [
        (entry["index"], entry["path"], entry["error"]["code"]) for entry in response.json()["failed"]
    ]
    assert failures == [
        (1, "Blank", "invalid_request"),
        (2, f"{folder}/../docs/gone.md", "source_gone"),
        (3, "relative.md", "invalid_request"),
        (4, "La", "invalid_request"),
        (5, "x", "bad_acl_entry"),
        (6, "http://mill.invalid/?", "invalid_request"),
        (7, "", "invalid_request"),
    ]
    assert "content must not be empty." in [entry["error"]["message"] for entry in response.json()["failed"]]


async def test_unknown_ids_are_not_found(http: httpx.AsyncClient) -> None:
    note = {"items": [{"type": "note", "content": "fine"}]}
    for unknown in (str(uuid4()), "not-an-id"):
        assert_problem(await http.get(f"/api/knowledge-bases/{unknown}"), 404, "base_not_found")
        assert_problem(
            await http.post(f"/api/knowledge-bases/{unknown}/items", json=note), 404, "base_not_found"
        )
        assert_problem(
            await http.post(f"/api/knowledge-bases/{unknown}/search", json={"query": "x"}),
            404,
            "base_not_found",
        )
        assert_problem(await http.get(f"/api/knowledge-items/{unknown}"), 404, "item_not_found")
    assert_problem(await http.get("/api/nothing"), 404, "no_such_route")
    assert_problem(await http.delete("/api/knowledge-bases"), 405, "method_not_allowed")


@pytest.mark.parametrize("name", ["notes", "Notes", " NOTES "])
async def test_a_name_is_taken_once_whatever_its_case(http: httpx.AsyncClient, name: str) -> None:
    await make_base(http, "notes")
    assert_problem(await http.post("/api/knowledge-bases", json={"name": name}), 409, "base_name_taken")
    assert len((await http.get("/api/knowledge-bases")).json()["items"]) == 1


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 201, 7, None])
async def test_a_name_must_be_one_line_of_text(http: httpx.AsyncClient, name: Any) -> None:
    assert_problem(await http.post("/api/knowledge-bases", json={"name": name}), 422, "invalid_request")


async def test_an_unknown_embedder_is_refused_with_the_known_ones(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/knowledge-bases", json={"name": "n", "embedder": "none"})
    assert "granite-30m-en" in assert_problem(answer, 422, "unknown_embedder")["detail"]


async def test_the_languages_of_a_new_base_are_checked(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/knowledge-bases", json={"name": "n", "languages": ["zh", "klingon"]})
    assert "zh" in assert_problem(answer, 422, "unknown_language")["detail"]
    created = await http.post(
        "/api/knowledge-bases", json={"name": "n", "languages": ["zh"], "embedder": "use-multilingual"}
    )
    assert created.json()["embedder"] == "use-multilingual"


async def test_a_body_that_is_too_large_is_refused_however_it_is_sent(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    large = b'{"items": [{"type": "note", "content": "' + b"x" * 30_000_000 + b'"}]}'
    url = f"/api/knowledge-bases/{base}/items"
    json_type = {"content-type": "application/json"}

    async def in_pieces():
        for start in range(0, len(large), 1 << 20):
            yield large[start : start + (1 << 20)]

    assert_problem(await http.post(url, content=large, headers=json_type), 413, "request_too_large")
    assert_problem(await http.post(url, content=in_pieces(), headers=json_type), 413, "request_too_large")
    assert (await http.get(url)).json()["items"] == []


async def test_lists_are_paged(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    await add_items(http, base, *({"type": "note", "content": f"note {n}"} for n in range(7)))
    titles: list[str] = []
    cursor: str | None = None
    while True:
        page = (
            await http.get(
                f"/api/knowledge-bases/{base}/items",
                params={"limit": 3, **({"cursor": cursor} if cursor else {})},
            )
        ).json()
        titles += [item["title"] for item in page["items"]]
        if (cursor := page["nextCursor"]) is None:
            break
    assert titles == [f"note {n}" for n in range(7)]
    assert_problem(
        await http.get(f"/api/knowledge-bases/{base}/items", params={"cursor": "x"}), 422, "invalid_request"
    )
    assert_problem(
        await http.get(f"/api/knowledge-bases/{base}/items", params={"limit": 0}), 422, "invalid_request"
    )


async def test_adding_no_items_succeeds(http: httpx.AsyncClient) -> None:
    """S0-22."""
    result = await add_items(http, await make_base(http))
    assert {**result, "correlationId": ""} == {
        "created": [],
        "skipped": [],
        "failed": [],
        "correlationId": "",
    }


async def test_events_are_read_by_a_cursor_and_filtered(http: httpx.AsyncClient) -> None:
    """S3-14, S3-21: by type and base; an unknown type is rejected; at the end the cursor stays the same."""
    base, other_base = await make_base(http), await make_base(http, "other")
    result = await add_items(http, base, {"type": "note", "title": "Stones", "content": "rye"})

    async def has_ready_event() -> bool:
        response = await http.get("/api/events", params={"types": "KnowledgeSpaceAllDocumentsIngested"})
        return bool(response.json()["items"])

    await wait_until(has_ready_event)
    page = (await http.get("/api/events", params={"baseId": base, "limit": 2})).json()
    assert [event["type"] for event in page["items"]] == ["BaseCreated", "DocumentUploadCompleted"]
    remaining = (await http.get("/api/events", params={"baseId": base, "after": page["nextCursor"]})).json()
    assert [event["type"] for event in remaining["items"]][-1] == "KnowledgeSpaceAllDocumentsIngested"
    assert remaining["items"][0]["correlationId"] == result["correlationId"]
    end = (await http.get("/api/events", params={"after": remaining["nextCursor"]})).json()
    assert end == {"items": [], "nextCursor": remaining["nextCursor"], "titles": {}}
    other_events = (await http.get("/api/events", params={"baseId": other_base})).json()["items"]
    assert [event["data"]["name"] for event in other_events] == ["other"]
    assert_problem(await http.get("/api/events", params={"types": "Nothing"}), 422, "event_unknown")
    assert_problem(await http.get("/api/events", params={"after": -1}), 422, "invalid_request")


async def test_a_base_shows_its_items_by_status_and_its_queue(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    (item,) = (await add_items(http, base, {"type": "note", "content": "one"}))["created"]
    await wait_until_ended(http, item["id"])
    assert (await http.get(f"/api/knowledge-bases/{base}")).json()["itemCounts"] == {"completed": 1}

    async def idle() -> bool:
        queue = (await http.get(f"/api/knowledge-bases/{base}/queue")).json()
        return (queue["queueSize"], queue["processingCount"], queue["etaSeconds"]) == (0, 0, 0)

    await wait_until(idle)


async def test_a_title_is_never_empty(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    result = await add_items(
        http, base, {"type": "note", "content": "\u200b\nsecond line"}, {"type": "note", "content": "# Head"}
    )
    assert [item["title"] for item in result["created"]] == ["Note", "Head"]


async def test_the_invariants_hold(http: httpx.AsyncClient) -> None:
    await assert_healthy(http)
    ready = (await http.get("/readyz")).json()
    assert (ready["status"], ready["reasons"]) == ("ready", [])


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "evil.example"}, "foreign_host"),
        ({"origin": "https://evil.example"}, "foreign_origin"),
        ({"origin": "null"}, "foreign_origin"),
    ],
)
async def test_requests_from_other_sites_are_rejected(
    http: httpx.AsyncClient, headers: dict[str, str], code: str
) -> None:
    assert_problem(await http.post("/api/knowledge-bases", json={"name": "n"}, headers=headers), 403, code)
    assert (await http.get("/api/knowledge-bases")).json()["items"] == []


async def test_the_schema_is_served(http: httpx.AsyncClient) -> None:
    assert "/api/knowledge-bases" in (await http.get("/openapi.json")).json()["paths"]

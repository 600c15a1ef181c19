"""Ignore patterns of bases and of single folders."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api_calls import (
    add_items,
    assert_healthy,
    assert_problem,
    item_titles,
    make_base,
    wait_until_ended,
)
from tests.gristmill_process import environment, run_command
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """docs/{a.md, run.log, .plan.md, drafts/b.md, deep/{c.md, run.log, drafts/d.md}}."""
    top = tmp_path / "docs"
    for name in (
        "a.md",
        "run.log",
        ".plan.md",
        "drafts/b.md",
        "deep/c.md",
        "deep/run.log",
        "deep/drafts/d.md",
    ):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"rye {name}")
    return top


async def file_titles(http: httpx.AsyncClient, base: str) -> list[str]:
    return await item_titles(http, base, parentId="*", type="file")


async def add_folder(http: httpx.AsyncClient, base: str, path: Path, **more: Any) -> dict[str, Any]:
    (root,) = (await add_items(http, base, {"type": "directory", "path": str(path), **more}))["created"]
    return await wait_until_ended(http, root["id"])


async def test_ignore_patterns_of_base_and_folder_apply(http: httpx.AsyncClient, docs: Path) -> None:
    """S4-57: ignore patterns per base and per item, at any depth, each relative to its own root."""
    base = await make_base(http, settings={"ignore": ["*.log", "/drafts/"]})
    root = await add_folder(http, base, docs, ignore=["c.*"])
    assert await file_titles(http, base) == ["a.md", "d.md"]
    assert root["source"] == {"path": str(docs), "ignore": ["c.*"]}
    await add_folder(http, base, docs / "deep", ignore=["!run.log"])
    assert await file_titles(http, base) == ["a.md", "c.md", "d.md", "run.log"]
    await assert_healthy(http)


async def test_a_change_takes_effect_when_the_folder_is_listed_again(
    http: httpx.AsyncClient, docs: Path
) -> None:
    """S4-10: queued jobs continue, and searchable items stay searchable until then."""
    base = await make_base(http)
    root = await add_folder(http, base, docs)
    all_titles = ["a.md", "b.md", "c.md", "d.md", "run.log", "run.log"]
    assert await file_titles(http, base) == all_titles
    url = f"/api/knowledge-bases/{base}"
    response = await http.patch(url, json={"settings": {"ignore": ["drafts/"]}})
    other_settings: dict[str, object] = {
        "assetReuse": "any",
        "emptyDocuments": "fail",
        "render": "never",
        "minScore": 0.0,
        "questions": "off",
        "synonyms": [],
    }
    assert response.json()["settings"] == {"ignore": ["drafts/"], "includeHidden": False, **other_settings}
    response = await http.patch(url, json={"settings": {"includeHidden": True}})
    assert response.json()["settings"] == {"ignore": ["drafts/"], "includeHidden": True, **other_settings}
    assert await file_titles(http, base) == all_titles
    assert (await http.post(f"/api/knowledge-items/{root['id']}/reprocess")).status_code == 202

    async def is_followed() -> bool:
        return await file_titles(http, base) == [".plan.md", "a.md", "c.md", "run.log", "run.log"]

    await wait_until(is_followed)
    again = await http.post(
        f"{url}/items",
        json={
            "items": [{"type": "directory", "path": str(docs), "ignore": ["*.log"]}],
            "onConflict": "replace",
        },
    )
    assert again.json()["created"][0]["id"] == root["id"]

    async def is_followed_again() -> bool:
        return await file_titles(http, base) == [".plan.md", "a.md", "c.md"]

    await wait_until(is_followed_again)
    await wait_until_ended(http, root["id"])
    await assert_healthy(http)


@pytest.mark.parametrize(
    "pattern", ["!", "[z-a]", "*a*b*c*d", "x" * 2000, " ", "# a comment", "two\nlines", 7]
)
async def test_an_invalid_pattern_is_rejected_with_its_field(
    http: httpx.AsyncClient, docs: Path, pattern: object
) -> None:
    base = await make_base(http)
    for method, url, body, field in (
        ("POST", "", {"name": "other", "settings": {"ignore": ["ok", pattern]}}, "settings.ignore[1]"),
        ("PATCH", f"/{base}", {"settings": {"ignore": [pattern]}}, "settings.ignore[0]"),
        (
            "POST",
            f"/{base}/items",
            {"items": [{"type": "directory", "path": str(docs), "ignore": [pattern]}]},
            "items[0].ignore[0]",
        ),
    ):
        answer = await http.request(method, f"/api/knowledge-bases{url}", json=body)
        problem = assert_problem(answer, 422, "invalid_request")
        assert [error["field"] for error in problem["errors"]] == [field]
    assert await item_titles(http, base) == []


def test_the_add_command_takes_ignore_patterns(
    docs: Path, data_dir: Path, cache_dir: Path, database_url: str, quick_embedder: dict[str, str]
) -> None:
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    result = run_command(env, "add", "notes", str(docs), "--ignore", "*.log", "--ignore", "drafts/", "--wait")
    assert result.returncode == 0, result.stderr
    assert "2 of 2 searchable in notes." in result.stdout
    none = run_command(env, "add", "notes", "--note", "rye", "--ignore", "*.log")
    assert (none.returncode, "nothing_to_ignore" in none.stderr) == (1, True)


def test_the_add_command_reports_what_was_left_out(
    docs: Path, data_dir: Path, cache_dir: Path, database_url: str, quick_embedder: dict[str, str]
) -> None:
    (docs / "loop").symlink_to(docs)
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    result = run_command(env, "add", "notes", str(docs), "--wait")
    assert result.returncode == 0, result.stderr
    assert "left out of docs: 1 linked_folder" in result.stdout

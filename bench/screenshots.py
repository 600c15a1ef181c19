"""Screenshots of every page, at both sizes and in both themes, over a server with sample data.

uv run python -m bench.screenshots [--out DIR] [--only WORD] [--language zh-CN]

Without `--out` they replace those in docs/images. Each is reduced to a palette, so that it takes some tens of kB.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect

from bench.sample import Sample, sample
from tests.ui.harness import PHONE, WIDE, Theme, chromium, profile

SIZES = {"1280x800": WIDE, "390x844": PHONE}
THEMES: tuple[Theme, Theme] = ("light", "dark")
IMAGES = Path(__file__).parents[1] / "docs" / "images" / "pages"
MAX_BYTES = 60_000
_PALETTES = (128, 64, 32, 16)  # colours; fewer if the file would be too large


def page_paths(sample_server: Sample) -> dict[str, str]:
    """The path of every page by name."""
    handbook, reports = sample_server.bases["Mill handbook"], sample_server.bases["Field reports"]
    response = sample_server.api.http.get(
        f"/api/knowledge-bases/{handbook}/items", params={"parentId": "*", "type": "file", "limit": 50}
    )
    item = response.json()["items"][30]["id"]
    github = sample_server.connectors["github"]
    run = sample_server.api.http.get(f"/api/connectors/{github}/runs").json()["items"][0]["id"]
    return {
        "bases": "/",
        "base": f"/b/{handbook}",
        "search": f"/b/{handbook}?q=how+does+a+worker+keep+its+lease",
        "failed": f"/b/{reports}?filter=failed",
        "sorted": f"/b/{handbook}?sort=-size",
        "item": f"/b/{handbook}/i/{item}",
        **reader_paths(sample_server),
        "add": f"/b/{handbook}?add=url",
        "base-settings": f"/b/{handbook}/settings",
        "connectors": "/connectors",
        "connector": f"/connectors/{github}",
        "connector-failed": f"/connectors/{sample_server.connectors['gitlab']}",
        "run": f"/connectors/{github}/runs/{run}",
        "search-everywhere": "/search?q=how+does+a+worker+keep+its+lease&explain=1",
        "ask": "/search?q=how+does+a+worker+keep+its+lease&ask=1",
        "search-empty": "/search",
        "connect": "/connect",
        "queue": "/queue",
        "events": "/events",
        "events-problems": "/events?kind=problems",
        "webhooks": f"/events/webhooks/{sample_server.webhook}",
        "settings-general": "/settings/general",
        "settings-models": "/settings/models",
        "settings-people": "/settings/people",
        "settings-keys": "/settings/keys",
        "settings-usage": "/settings/usage",
        "settings-workers": "/settings/workers",
        "settings-storage": "/settings/storage",
        "settings-audit": "/settings/audit",
        "sign-in": "/sign-in",
    }


def reader_paths(sample_server: Sample) -> dict[str, str]:
    """The reader with a PDF file, an image, markdown, code, slides and a sheet, each at a hit."""
    shelf = sample_server.bases["Archive"]
    items = sample_server.api.http.get(f"/api/knowledge-bases/{shelf}/items").json()["items"]
    ids = {item["title"].rpartition(".")[2]: item["id"] for item in items}
    queries = {"pdf": "heron+millrace", "png": "stone", "md": "grain+price", "py": "grind"}
    queries |= {"pptx": "mill+7", "xlsx": "rye"}
    paths: dict[str, str] = {}
    for kind, query in queries.items():
        body = {"query": query.replace("+", " "), "mode": "text"}
        hits = sample_server.api.http.post(f"/api/knowledge-bases/{shelf}/search", json=body).json()["hits"]
        chunk = next((f"&chunk={hit['chunkId']}" for hit in hits if hit["itemId"] == ids[kind]), "")
        page = "&page=2&view=both" if kind == "pdf" else ""
        paths[f"reader-{kind}"] = f"/b/{shelf}/i/{ids[kind]}/read?q={query}&mode=text{chunk}{page}"
    return paths


def open_dialogs(page: Page, url: str) -> Iterator[str]:
    """Dialogs that no address has, one after the other; yields the name of each while it is open."""
    page.goto(url)
    page.get_by_role("button", name="New base").or_(
        page.get_by_role("button", name="新建知识库")
    ).first.click()
    yield "new-base"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    yield "shortcuts"
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("mill")
    yield "palette"


def take_screenshot(page: Page, url: str, file: Path) -> None:
    page.goto(url)
    page.locator("main > *").first.wait_for()
    page.wait_for_timeout(900)  # until everything is painted; a screenshot is not a test
    expect(page.locator("main [aria-busy=true]")).to_have_count(0, timeout=20_000)
    save_picture(page, file)


def save_picture(page: Page, file: Path) -> None:
    """Save the page as it is now."""
    page.screenshot(path=file)
    reduce_colours(file)


def reduce_colours(file: Path) -> None:
    """Write a picture again with a palette, of as many colours as fit into `MAX_BYTES`."""
    with Image.open(file) as opened:
        picture = opened.convert("RGB")
    for colours in _PALETTES:
        picture.quantize(colours, dither=Image.Dither.NONE).save(file, optimize=True)
        if file.stat().st_size <= MAX_BYTES:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=IMAGES)
    parser.add_argument("--only", default="", help="pages whose name contains this word")
    parser.add_argument("--language", default="en-US")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with sample() as sample_server, chromium() as browser:
        pages = page_paths(sample_server)
        sample_server.slow_down(0.6)
        handbook = sample_server.bases["Mill handbook"]
        roots = sample_server.api.http.get(f"/api/knowledge-bases/{handbook}/items").json()["items"]
        for n in range(60):  # new texts, so that work is in progress
            sample_server.api.add_notes(
                sample_server.bases["Support macros"], f"# Macro {n + 100}\n\nA new answer, number {n}."
            )
        print(f"{len(roots)} roots; screenshots go to {options.out}")
        for size_name, size in SIZES.items():
            for theme in THEMES:
                with profile(browser, size, theme, options.language) as tabs:
                    page = tabs.context.new_page()
                    for name, path in pages.items():
                        if options.only in name:
                            take_screenshot(
                                page,
                                sample_server.server.url + path,
                                options.out / f"{name}-{theme}-{size_name}.png",
                            )
                    for name in open_dialogs(page, sample_server.server.url):
                        page.wait_for_timeout(400)
                        if options.only in name:
                            save_picture(page, options.out / f"{name}-{theme}-{size_name}.png")
                    for error in tabs.errors:
                        print(f"{theme} {size_name}: {error}")


if __name__ == "__main__":
    main()

"""Pictures of every page, at both sizes and in both themes, over a server with something in it.

uv run --group dev python -m bench.screenshots --out DIR [--only WORD] [--language zh-CN]
"""

import argparse
from pathlib import Path

from playwright.sync_api import Page

from bench.sample import Sample, sample
from tests.ui.harness import PHONE, WIDE, Theme, chromium, profile

SIZES = {"1280x800": WIDE, "390x844": PHONE}
THEMES: tuple[Theme, Theme] = ("light", "dark")


def addresses(made: Sample) -> dict[str, str]:
    """Every page by a name."""
    handbook, reports = made.bases["Mill handbook"], made.bases["Field reports"]
    listed = made.hand.http.get(
        f"/api/knowledge-bases/{handbook}/items", params={"parentId": "*", "type": "file", "limit": 50}
    )
    item = listed.json()["items"][30]["id"]
    github = made.connectors["github"]
    run = made.hand.http.get(f"/api/connectors/{github}/runs").json()["items"][0]["id"]
    return {
        "bases": "/",
        "base": f"/b/{handbook}",
        "search": f"/b/{handbook}?q=how+does+a+worker+keep+its+lease",
        "failed": f"/b/{reports}?filter=failed",
        "item": f"/b/{handbook}/i/{item}",
        "add": f"/b/{handbook}?add=url",
        "base-settings": f"/b/{handbook}/settings",
        "connectors": "/connectors",
        "connector": f"/connectors/{github}",
        "connector-failed": f"/connectors/{made.connectors['gitlab']}",
        "run": f"/connectors/{github}/runs/{run}",
        "queue": "/queue",
        "events": "/events",
        "events-problems": "/events?kind=problems",
        "webhooks": f"/events/webhooks/{made.webhook}",
        "settings-general": "/settings/general",
        "settings-models": "/settings/models",
        "settings-keys": "/settings/keys",
        "settings-workers": "/settings/workers",
        "sign-in": "/sign-in",
    }


def shoot(page: Page, url: str, file: Path) -> None:
    page.goto(url)
    page.locator("main > *").first.wait_for()
    page.wait_for_timeout(900)  # what is fetched has to be painted; a picture is no test
    page.screenshot(path=file)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--only", default="", help="pages whose name holds this word")
    asked.add_argument("--language", default="en-US")
    given = asked.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with sample() as made, chromium() as browser:
        pages = addresses(made)
        made.slow_down(0.6)
        handbook = made.bases["Mill handbook"]
        roots = made.hand.http.get(f"/api/knowledge-bases/{handbook}/items").json()["items"]
        for n in range(60):  # new texts, so that something is under way
            made.hand.notes(made.bases["Support macros"], f"# Macro {n + 100}\n\nA new answer, number {n}.")
        print(f"{len(roots)} roots; pictures go to {given.out}")
        for size_name, size in SIZES.items():
            for theme in THEMES:
                with profile(browser, size, theme, given.language) as tabs:
                    page = tabs.context.new_page()
                    for name, path in pages.items():
                        if given.only in name:
                            shoot(page, made.server.url + path, given.out / f"{name}-{theme}-{size_name}.png")
                    for error in tabs.errors:
                        print(f"{theme} {size_name}: {error}")


if __name__ == "__main__":
    main()

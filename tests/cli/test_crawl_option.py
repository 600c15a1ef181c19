"""`gristmill add --crawl`: addresses are start pages of sites."""

from pathlib import Path

import pytest

from gristmill.cli import add
from gristmill.cli.client_session import Refused

RULES = {"maxPages": 500, "maxDepth": 5, "include": ["/docs/*"], "exclude": []}


def test_addresses_become_sites_with_the_rules_of_the_crawl_and_paths_stay_paths(tmp_path: Path) -> None:
    url = "https://example.org/docs/"
    site, folder = add.items_to_add([url, str(tmp_path)], [], [], RULES)
    assert site == {"type": "site", "url": url, **RULES}
    assert folder == {"type": "directory", "path": str(tmp_path)}
    assert add.items_to_add([url], [])[0]["type"] == "url"


def test_the_pages_of_a_command_are_rendered_as_it_says(tmp_path: Path) -> None:
    url = "https://example.org/docs/"
    page, folder = add.items_to_add([url, str(tmp_path)], [], render="auto")
    assert page == {"type": "url", "url": url, "render": "auto"}
    assert "render" not in folder
    (site,) = add.items_to_add([url], [], [], RULES, "always")
    assert (site["type"], site["render"]) == ("site", "always")
    with pytest.raises(Refused) as caught:
        add.items_to_add([str(tmp_path)], [], render="auto")
    assert caught.value.code == "nothing_to_render"


def test_a_crawl_without_an_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        add.items_to_add([str(tmp_path)], [], [], RULES)
    assert caught.value.code == "nothing_to_crawl"


def test_rules_of_a_crawl_without_a_crawl_are_refused() -> None:
    options = {"maxPages": None, "maxDepth": None, "include": ["/docs/*"], "exclude": None}
    assert add.crawl_rules(options, crawl=True) == {"include": ["/docs/*"]}
    with pytest.raises(Refused) as caught:
        add.crawl_rules(options, crawl=False)
    assert caught.value.code == "nothing_to_crawl"
    assert add.crawl_rules(dict.fromkeys(options), crawl=False) is None

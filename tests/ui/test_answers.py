"""What a chat model writes is shown as it means it, with its citations; nothing in it runs, loads or leads elsewhere."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.ui.harness import PHONE, ApiHelper, profile, server_with_model, violations

pytestmark = pytest.mark.browser

ANSWER = """### Stones

The miller **dresses** them [1]:

1. in *spring*, `list[1]`
2. before the harvest [2]

| Stone | Age |
|---|---|
| runner [1] | 7 |

```py
stones = rows[1]
```

[Read more](https://evil.test/?q=secret) ![x](https://evil.test/x.png) <img src=x onerror=alert(1)>

[1]: https://evil.test/one
"""


def test_an_answer_is_rendered_with_its_citations_and_names_the_bases(
    browser: Browser, server_url: str, cache_dir: Path
) -> None:
    with (
        server_with_model(server_url, cache_dir) as (url, chat),
        httpx.Client(base_url=url, timeout=60) as http,
        profile(browser) as tabs,
    ):
        api = ApiHelper(http)
        page = tabs.open()
        for name in ("Mill", "Farm"):
            base = api.create_base(name)
            api.add_notes(base, f"# {name}\n\nThe miller dresses the stones of the {name} in spring.")
            page.goto(f"{url}/b/{base}")
            expect(page.get_by_role("row").first).to_contain_text("Indexed")
        chat.reply = lambda _: [ANSWER]
        requests = list[str]()
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{url}/search?q=who+dresses+the+stones&ask=1")
        answer = page.get_by_role("region", name="Answer")
        expect(answer.get_by_role("status")).to_have_text("Answer")
        text = answer.locator(".answer-text")
        expect(text.locator("ol > li")).to_have_count(2)
        expect(text.locator("strong")).to_have_text("dresses")
        expect(text.locator("td").first).to_have_text("runner 1")
        expect(text.locator("pre")).to_have_text("stones = rows[1]\n")
        expect(text.locator("ol code")).to_have_text("list[1]")
        assert text.locator("a").evaluate_all("links => links.map(link => link.className)") == ["cite"] * 4
        expect(text).to_contain_text("Read more (https://evil.test/?q=secret)")
        expect(text).to_contain_text("<img src=x onerror=alert(1)>")
        expect(text.locator("img")).to_have_count(0)
        expect(text).not_to_contain_text("**")
        sources = answer.get_by_role("list", name="Sources").get_by_role("listitem")
        expect(sources).to_have_count(2)
        heads = sources.locator(".passage-head .dim").all_inner_texts()
        assert sorted(heads) == ["Farm", "Mill"]
        assert violations(page) == []
        assert all(address.startswith(url) for address in requests)
        page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        text.locator("a.cite").nth(1).click()
        expect(page).to_have_url(re.compile(r"/read\?.*from=search&chunk="))
        assert tabs.errors == []

"""What a chat model writes is shown as it means it, with its citations; nothing in it runs, loads or leads elsewhere."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

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
        with profile(browser, language="zh-CN") as chinese:  # also what fails while the answer is on its way
            chat.status = 503
            page = chinese.open(f"{url}/search?q=who+dresses+the+stones&ask=1")
            answer = page.get_by_role("region", name="回答")
            expect(answer).to_contain_text("对话模型暂不可用")
            chat.status, chat.breaks_off = 200, True
            chat.reply = lambda _: ["The miller ", "dresses [1] and "]
            page.reload()
            expect(answer).to_contain_text("The miller dresses 1")  # what was written stays
            expect(answer).to_contain_text("对话模型暂不可用")
            assert chinese.errors == []


def test_the_search_page_says_which_bases_it_leaves_out(page: Page, server_url: str, cache_dir: Path) -> None:
    """A search covers 100 bases, and the list of sources those of eight."""
    with (
        server_with_model(server_url, cache_dir) as (url, _),
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        api = ApiHelper(http)
        bases = [api.create_base(f"Base {number}") for number in range(100)]
        api.add_notes(bases[-1], "The millstone turns.")
        api.wait_until_indexed(bases[-1])
        page.goto(f"{url}/search?q=millstone&mode=text")
        panel = page.get_by_role("complementary", name="Filters")
        expect(page.locator(".hit")).to_have_count(1)
        expect(panel).to_contain_text("All are searched.")
        api.create_base("One more")
        page.reload()
        expect(panel).to_contain_text("The first 100 are searched.")
        note = page.get_by_text("The first 100 of your 101 bases are searched. Choose bases in the filters")
        expect(note).to_be_visible()
        panel.get_by_text("Source", exact=True).click()
        expect(panel).to_contain_text("These are the sources of the first 8 bases.")
        assert violations(page) == []
        panel.get_by_role("checkbox", name="Base 99").check()
        expect(note).to_have_count(0)
        expect(panel).not_to_contain_text("the first 8 bases")

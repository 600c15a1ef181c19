"""The tree: virtual scrolling, keyboard navigation, expanding folders, and escaping of titles."""

import re
from pathlib import Path

import psycopg
from playwright.sync_api import Page, expect

from tests.ui.harness import ApiHelper, ServerSetup

_ITEM_COUNT = 20_000
# Failed items satisfy every invariant without a job, a version or a chunk.
_FILL = """
insert into item (base_id, type, title, status, source, source_key, expanded_version, error_code, error_message)
select %s, 'file', 'sheaf-' || lpad(n::text, 6, '0'), 'failed', '{"name": "x"}', 'upload:' || n, 1, 'unreadable', 'It is wet.'
  from generate_series(1, %s) n
"""


def test_only_the_visible_rows_of_a_large_tree_are_in_the_document(
    page: Page, ui_url: str, api: ApiHelper, ui_setup: ServerSetup
) -> None:
    base = api.create_base("Many rows")
    with psycopg.connect(ui_setup.env["GRISTMILL_DATABASE_URL"], autocommit=True) as database:
        database.execute(_FILL, (base, _ITEM_COUNT))
    page.goto(f"{ui_url}/b/{base}")
    tree = page.get_by_role("treegrid")
    expect(page.get_by_role("row", name=re.compile("sheaf-000001"))).to_be_visible()
    expect(tree).to_have_attribute("aria-rowcount", str(_ITEM_COUNT))
    assert page.get_by_role("row").count() < 60
    tree.focus()
    page.keyboard.press("End")
    expect(page.get_by_role("row", name=re.compile(f"sheaf-{_ITEM_COUNT:06}"))).to_be_visible()
    assert page.get_by_role("row").count() < 60
    page.get_by_label("Filter by name").fill("sheaf-0123")
    expect(tree).to_have_attribute("aria-rowcount", "100")
    expect(page.get_by_role("row", name=re.compile("sheaf-012300"))).to_be_visible()


# What was fetched when the first row is shown. Later, a reload by the live stream fetches it again.
_FETCHED_AT_FIRST_ROW = """new MutationObserver((_, observer) => {
  if (!document.querySelector("[role=row][aria-level]")) return;
  observer.disconnect();
  window.fetched = performance.getEntriesByType("resource").map((entry) => entry.name.replace(location.origin, ""));
}).observe(document, { subtree: true, childList: true })"""


def test_the_first_data_of_a_base_is_fetched_once_and_before_its_modules(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base("First rows")
    api.add_notes(base, "the first of them")
    page.add_init_script(_FETCHED_AT_FIRST_ROW)
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("the first of them"))).to_be_visible()
    fetched: list[str] = page.evaluate("window.fetched")
    first_module = next(index for index, path in enumerate(fetched) if path.endswith(".js"))
    rows = f"/api/knowledge-bases/{base}/tree?offset=0&limit=100"
    for path in ("/api/session", "/api/knowledge-bases?limit=500", rows):
        assert fetched.count(path) == 1, fetched
        assert fetched.index(path) < first_module, fetched


def test_a_folder_is_opened_and_left_by_arrow_keys(
    page: Page, ui_url: str, api: ApiHelper, tmp_path: Path
) -> None:
    """The state is in the URL: a reload shows the same."""
    for name in ("rye", "wheat"):
        (tmp_path / "grain").mkdir(exist_ok=True)
        (tmp_path / "grain" / f"{name}.md").write_text(f"{name} is sown in autumn")
    base = api.create_base("Keys")
    api.http.post(
        f"/api/knowledge-bases/{base}/items",
        json={"items": [{"type": "directory", "path": str(tmp_path / "grain"), "title": "Grain"}]},
    )
    page.goto(f"{ui_url}/b/{base}")
    folder = page.get_by_role("row", name=re.compile("Grain"))
    expect(folder).to_contain_text("Indexed")
    expect(folder).to_have_attribute("aria-expanded", "false")
    page.get_by_role("treegrid").focus()
    page.keyboard.press("ArrowRight")
    expect(folder).to_have_attribute("aria-expanded", "true")
    rye = page.get_by_role("row", name=re.compile("rye.md"))
    expect(rye).to_have_attribute("aria-level", "2")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("treegrid")).to_have_attribute("aria-activedescendant", re.compile("row-"))
    page.keyboard.press("Space")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile(r"(rye|wheat)\.md"))).to_be_visible()
    page.reload()
    expect(rye).to_be_visible()
    page.get_by_role("treegrid").focus()
    page.keyboard.press("ArrowLeft")
    expect(rye).to_have_count(0)


def test_a_title_that_looks_like_markup_is_text(page: Page, ui_url: str, api: ApiHelper) -> None:
    title = '<img src=x onerror="document.title=1">${1}'
    base = api.create_base(f"{title} base")
    api.http.post(
        f"/api/knowledge-bases/{base}/items",
        json={"items": [{"type": "note", "title": title, "content": f"says {title}"}]},
    )
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("onerror"))).to_contain_text("Indexed")
    page.get_by_role("searchbox", name="Search this base").fill("says")
    expect(page.locator(".hit b")).to_have_text(title)
    expect(page.locator(".hit-text")).to_contain_text("says ${1}")
    page.locator(".hit a").click()
    expect(page.get_by_role("region", name="Text")).to_contain_text("says ${1}")
    expect(page.locator("main img")).to_have_count(0)


def test_rows_of_a_list_stay_the_same_elements_while_their_key_is_listed(page: Page, ui_url: str) -> None:
    """The reactive core in a real document: keyed rows stay in place and keep the focus, and data never executes."""
    page.goto(ui_url)
    result = page.evaluate(
        """async () => {
        const core = new URL("core.js", document.querySelector("script[type=module]").src);
        const { each, html, signal } = await import(core);
        const list = signal([{ id: 1, name: "a" }, { id: 2, name: "b" }, { id: 3, name: "c" }]);
        const row = (item) => html`<li tabindex="0">${() => item.value.name}</li>`;
        const box = html`<ul>${each(() => list.value, (item) => item.id, row)}</ul>`;
        document.body.append(box);
        const before = [...box.children];
        before[0].focus();
        list.value = [{ id: 3, name: "C" }, { id: 1, name: "a" }, { id: 4, name: "d" }];
        await null;
        const after = [...box.children];
        const isFocused = document.activeElement === after[1];
        list.value = [{ id: 1, name: "a" }, { id: 4, name: "d" }, { id: 3, name: "C" }];
        await null;
        const isStillFocused = document.activeElement === before[0];
        const link = html`<a href="${"javascript:alert(1)"}" title="${'"><b>'}">${"<b>"}</a>`;
        let refused = "";
        try { html`<a onclick=${"alert(1)"}>x</a>`; } catch (error) { refused = error.message; }
        box.remove();
        return [after.map((node) => node.textContent).join(""), after[0] === before[2], after[1] === before[0],
                isFocused, isStillFocused,
                link.hasAttribute("href"), link.title, link.textContent, refused];
      }"""
    )
    assert result == ["Cad", True, True, True, True, False, '"><b>', "<b>", "onclick takes no data"]


def test_a_fetch_that_brings_nothing_new_changes_nothing(page: Page, ui_url: str) -> None:
    """Pages fetch their data again every few seconds: what they show was made again each time, and the focus in it was lost."""
    page.goto(ui_url)
    shown = page.evaluate(
        """async () => {
        const script = document.querySelector("script[type=module]").src;
        const { effect } = await import(new URL("core.js", script));
        const { resource } = await import(new URL("resource.js", script));
        const responses = [[{ id: 1, used: 5 }], [{ id: 1, used: 5 }], [{ id: 1, used: 6 }]];
        const shown = [];
        const ended = new Promise((resolve) => {
          const list = resource(async () => responses.shift(), { rest: 0, every: () => {
            if (responses.length) return 1;
            setTimeout(resolve, 20);
            return null;
          } });
          effect(() => list.value.value, (value) => shown.push(value?.[0].used ?? null));
        });
        await ended;
        return shown;
      }"""
    )
    assert shown == [None, 5, 6]

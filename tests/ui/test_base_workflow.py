"""The main workflow in the browser: create a base, drop files, watch progress, search, read, delete, recover."""

import re
from pathlib import Path

from playwright.sync_api import Browser, FilePayload, Page, Route, expect

from tests.gristmill_process import run_serve
from tests.ui.blocking_embedder import HELD_MARKER, hold_embedding
from tests.ui.harness import ApiHelper, ServerSetup, profile, server_setup

# Drops generated files on the page, as the browser would.
_DROP = """(files) => {
  const data = new DataTransfer();
  for (const [name, text] of files) data.items.add(new File([text], name, { type: "text/markdown" }));
  for (const kind of ["dragenter", "dragover", "drop"])
    document.querySelector("main").dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
# Records every percentage that the page shows, overall and for each row.
_WATCH = """() => {
  const seen = (window.seen = {});
  const note = (name, text) => {
    const value = parseFloat(text);
    const list = (seen[name] ??= []);
    if (!Number.isNaN(value) && list.at(-1) !== value) list.push(value);
  };
  const look = () => {
    note("all", document.querySelector(".overall b")?.textContent ?? "");
    for (const row of document.querySelectorAll("[role=row][id]")) note(row.id, row.querySelector(".done")?.textContent ?? "");
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def confirm_deletion(page: Page, title: str) -> None:
    """Confirm in the dialog that names what is deleted, and says for how long it can be undone."""
    dialog = page.get_by_role("dialog", name=title)
    expect(dialog).to_contain_text("You can undo this for a few seconds.")
    dialog.get_by_role("button", name="Delete").click()


def test_the_progress_of_a_hundred_dropped_files_never_falls(page: Page, ui_url: str) -> None:
    """S4-01, S4-04, S4-67: from an empty base to an opened chunk, in the browser alone."""
    page.goto(ui_url)
    page.get_by_role("button", name="New base").first.click()
    page.get_by_label("Name").fill("Millbook")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Millbook")).to_be_visible()
    expect(page.get_by_text("Nothing here yet")).to_be_visible()
    page.evaluate(_WATCH)
    page.evaluate(_DROP, [[f"page-{n:03}.md", f"# Page {n}\n\nStone number {n} turns."] for n in range(100)])
    expect(page.locator(".overall b")).to_have_text("100%", timeout=60_000)
    expect(page.get_by_role("treegrid")).to_have_attribute("aria-rowcount", "100")
    seen: dict[str, list[float]] = page.evaluate("window.seen")
    assert seen["all"][-1] == 100
    assert len(seen) > 10
    for name, values in seen.items():
        assert values == sorted(values), name

    page.get_by_role("searchbox", name="Search this base").fill("stone number 42")
    hit = page.get_by_role("link", name=re.compile("page-042.md"))
    expect(hit.locator("mark").first).to_be_visible()
    hit.click()
    expect(page).to_have_url(re.compile(r"/i/.*/read\?.*chunk="))
    expect(page.locator(".text-block.passage").last).to_contain_text("Stone number 42 turns.")


def test_uploads_that_overlap_have_failures_of_their_own_and_stop_as_a_whole(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """The end of one says nothing of the other, and what was refused stays; Stop also ends what was not begun."""
    base, _ = api.create_base("Two drops"), api.create_base("No drops")
    waiting: list[Route] = []
    page.route("**/files", lambda route: waiting.append(route))
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_text("Nothing here yet")).to_be_visible()
    panels = page.locator(".upload")
    for count, names in enumerate((["rye.md", "oats.md"], ["spelt.md"]), start=1):
        with page.expect_request("**/files"):
            page.evaluate(_DROP, [[name, f"# {name}"] for name in names])
        expect(panels).to_have_count(count)
    page.get_by_role("link", name="No drops").click()
    expect(page.locator(".overall b")).to_have_text("–")  # what another base waits for does not count
    page.get_by_role("link", name="Two drops").click()
    waiting[0].continue_()
    expect(page.get_by_text("Added 2 files")).to_be_visible()
    expect(panels).to_have_count(1)
    waiting[1].fulfill(status=413, json={"code": "request_too_large", "detail": "The request is too large."})
    expect(panels).to_contain_text("The request is too large.")
    expect(panels).to_contain_text("spelt.md")
    panels.get_by_role("button", name="Close").click()
    waiting.clear()
    refused = [f"{n}.md" for n in range(7)]
    with page.expect_request("**/files"):
        page.evaluate(_DROP, [[name, "# Barley"] for name in refused])
    failure = {"code": "document_too_large", "message": "The document is too large."}
    failed = [{"index": n, "path": name, "error": failure} for n, name in enumerate(refused)]
    expect(panels).to_have_count(1)
    waiting[0].fulfill(status=202, json={"created": [], "failed": failed})
    expect(panels.get_by_role("listitem")).to_have_count(7)  # nothing else names those that were refused
    panels.get_by_role("button", name="Close").click()
    waiting.clear()
    page.evaluate(_DROP, [[f"{n:03}.md", "# Millet"] for n in range(501)])  # three requests, two at a time
    with page.expect_event("dialog") as question:
        page.close(run_before_unload=True)
    question.value.dismiss()  # the browser has asked first, and the person stays
    panels.get_by_role("button", name="Stop").click()
    expect(panels.get_by_role("button", name="Send again")).to_be_visible()
    expect(panels.get_by_text("stopped")).to_have_count(3)
    assert len(waiting) == 2


# Files as entries of a dropped folder; the browser can't read those whose names begin with "locked".
_ENTRIES = """() => {
  DataTransferItem.prototype.webkitGetAsEntry = function () {
    const file = this.getAsFile();
    const read = (done, fail) => file.name.startsWith("locked") ? fail(new DOMException("no")) : done(file);
    return { isFile: true, name: file.name, file: read };
  };
}"""


def test_what_is_hidden_or_cannot_be_read_in_a_folder_is_not_uploaded(
    page: Page, ui_url: str, api: ApiHelper, tmp_path: Path
) -> None:
    """A chosen folder brings the same files as a dropped one; what the browser can't read is named, and stops nothing else."""
    for name in ("rye.md", ".env", ".git/config", "grain/oats.md"):
        (tmp_path / "mill" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mill" / name).write_text(f"# {name}", "utf-8")
    base = api.create_base("Folder")
    page.goto(f"{ui_url}/b/{base}?add=file")
    page.get_by_label("Choose a folder").set_input_files(tmp_path / "mill")
    expect(page.get_by_text("Added 2 files")).to_be_visible()
    page.evaluate(_ENTRIES)
    page.evaluate(_DROP, [["locked.md", "# Spelt"], ["millet.md", "# Millet"]])
    expect(page.locator(".toast.bad")).to_contain_text("These can't be read: locked.md")
    expect(page.get_by_text("Added 1 file", exact=True)).to_be_visible()
    titles = [item["title"] for item in api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]]
    assert sorted(titles) == ["millet.md", "oats.md", "rye.md"]


def test_a_row_deleted_while_it_is_indexed_disappears_for_good(
    page: Page, ui_url: str, api: ApiHelper, ui_setup: ServerSetup
) -> None:
    """S4-05."""
    base = api.create_base("Deleted midway")
    with hold_embedding(ui_setup.embedder):
        api.add_notes(base, f"Rye waits {HELD_MARKER}", "Oats are done")
        page.goto(f"{ui_url}/b/{base}")
        row = page.get_by_role("row", name=re.compile("Rye waits"))
        expect(row).to_contain_text("Embedding")
        row.hover()
        row.get_by_role("button", name="Delete").click()
        confirm_deletion(page, "Delete Rye waits")
        expect(row).to_have_count(0)
        expect(page.get_by_text("Deleted Rye waits")).to_be_visible()
    expect(page.locator(".overall b")).to_have_text("100%")
    page.reload()
    expect(page.get_by_role("row", name=re.compile("Oats"))).to_be_visible()
    expect(row).to_have_count(0)


def test_a_row_returns_with_an_error_when_its_deletion_fails(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Failures")
    api.add_notes(base, "Barley stays")
    page.goto(f"{ui_url}/b/{base}")
    row = page.get_by_role("row", name=re.compile("Barley"))
    row.hover()
    page.context.set_offline(True)
    row.get_by_role("button", name="Delete").click()
    confirm_deletion(page, "Delete Barley stays?")
    expect(page.locator(".toast.bad")).to_contain_text("can't be reached")
    expect(row).to_be_visible()
    page.context.set_offline(False)


def test_nothing_is_deleted_or_reindexed_as_a_whole_without_a_confirmation(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """One item, several items and the whole base: what is cancelled, by button, Escape or Enter, does not happen."""
    base = api.create_base("Confirmed")
    api.add_notes(base, "Rye one", "Rye two", "Rye three")
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("Rye.*Indexed"))).to_have_count(3)
    page.get_by_role("row", name=re.compile("Rye one")).click()
    page.get_by_role("treegrid").focus()
    page.keyboard.press("Delete")
    expect(page.get_by_role("dialog", name="Delete Rye one?")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for title in ("Rye one", "Rye two"):
        page.get_by_role("checkbox", name=f"Select {title}").check()
    page.locator(".chosen").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete 2 items?").get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_role("button", name="Clear selection").click()
    page.get_by_role("button", name="Reindex all").click()
    reindex_dialog = page.get_by_role("dialog", name="Reindex everything in Confirmed?")
    expect(reindex_dialog).to_contain_text("3 items")
    expect(reindex_dialog.get_by_role("status")).to_contain_text("Documents: 3; texts to embed")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    items = api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
    assert [(item["status"], item["version"]) for item in items] == [("completed", 1)] * 3
    page.get_by_role("button", name="Reindex all").click()
    page.get_by_role("dialog").get_by_role("button", name="Reindex all").click()
    expect(page.get_by_text("Reindexing 3 items")).to_be_visible()
    page.goto(f"{ui_url}/b/{base}?add=file")
    add_dialog = page.get_by_role("dialog", name="Add content")
    add_dialog.get_by_label("Show what they would cost first").check()
    file = FilePayload(name="oats.txt", mimeType="text/plain", buffer=b"Oats are rolled.")
    add_dialog.get_by_label("Choose files").set_input_files([file])
    expect(add_dialog.get_by_text("Documents: 1; texts to embed: 1")).to_be_visible()
    assert len(api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]) == 3
    add_dialog.get_by_role("button", name="Add 1 file").click()
    expect(page.get_by_role("row", name=re.compile("oats.txt"))).to_be_visible()


def test_reindexing_active_items_offers_a_choice(
    page: Page, ui_url: str, api: ApiHelper, ui_setup: ServerSetup
) -> None:
    base = api.create_base("Busy")
    with hold_embedding(ui_setup.embedder):
        api.add_notes(base, f"Wheat waits {HELD_MARKER}")
        page.goto(f"{ui_url}/b/{base}")
        row = page.get_by_role("row", name=re.compile("Wheat"))
        expect(row).to_contain_text("Embedding")
        row.hover()
        row.get_by_role("button", name="Reindex").click()
        dialog = page.get_by_role("dialog", name="Some items are still being processed")
        expect(dialog).to_contain_text("Wheat waits")
        dialog.get_by_role("button", name="Reindex when they finish").click()
        expect(dialog).to_have_count(0)
    expect(row).to_contain_text("Indexed")


def test_a_failed_row_shows_its_error_and_can_be_retried(page: Page, ui_url: str, api: ApiHelper) -> None:
    """S4-33: the error and the retry button are in the row."""
    base = api.create_base("Failing")
    api.add_unreadable_files(base, "grain.bin")
    page.goto(f"{ui_url}/b/{base}?filter=failed")
    row = page.get_by_role("row", name=re.compile("grain.bin"))
    expect(row).to_contain_text("Failed")
    error = api.http.get(f"/api/knowledge-bases/{base}/tree").json()["items"][0]["error"]["message"]
    expect(row).to_contain_text(error)
    row.get_by_role("button", name="Reindex").click()
    expect(page.get_by_text("Reindexing 1 item")).to_be_visible()
    expect(row).to_contain_text("Failed")


def test_a_filtered_list_has_what_matches_now(
    page: Page, ui_url: str, api: ApiHelper, ui_setup: ServerSetup
) -> None:
    """What was being processed leaves the list when it is done, and what loses a tag the list of that tag."""
    base = api.create_base("Filtered")
    with hold_embedding(ui_setup.embedder):
        api.add_notes(base, f"Barley waits {HELD_MARKER}")
        with page.expect_response(re.compile(r"/tree\?.*status=")):
            page.goto(f"{ui_url}/b/{base}?filter=processing")
        row = page.get_by_role("row", name=re.compile("Barley waits"))
        expect(row).to_contain_text("Embedding")
    expect(row).to_have_count(0)
    expect(page.get_by_text("No item matches this filter.")).to_be_visible()
    items = [{"type": "note", "content": "Oats", "metadata": {"tags": ["wet"]}}]
    api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": items})
    with page.expect_response(re.compile(r"/tree\?.*tag=wet")):
        page.goto(f"{ui_url}/b/{base}?tag=wet")
    row = page.get_by_role("row", name=re.compile("Oats"))
    expect(row).to_contain_text("Indexed")
    page.get_by_role("treegrid").focus()
    page.keyboard.press("Home")
    page.keyboard.press("t")
    page.get_by_role("dialog", name="Tags").get_by_label("wet").check()
    page.get_by_role("button", name="Save").click()
    expect(row).to_have_count(0)


def test_an_item_that_waits_shows_why_which_attempt_and_the_next_try(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """S4-46: in its row and in its pane, as it happens."""
    base = api.create_base("Waiting")
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_text("Nothing here yet")).to_be_visible()
    item = {"type": "url", "url": "http://127.0.0.1:9/refused"}
    response = api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": [item]})
    assert response.status_code == 202, response.text
    reason = re.compile(r"127\.0\.0\.1:9.*Attempt \d+ of \d+\. Next try at \d")
    row = page.get_by_role("row").filter(has_text="refused")
    expect(row.locator(".note")).to_have_text(reason)
    row.click()
    expect(page.locator(".item-facts .banner")).to_have_text(reason)


def test_work_of_a_killed_worker_is_offered_and_recovered(
    browser: Browser, server_url: str, cache_dir: Path
) -> None:
    """S4-11, S4-61: a parked base waits until a person recovers it on the page."""
    with server_setup(server_url, cache_dir) as setup, profile(browser) as tabs:
        with hold_embedding(setup.embedder), run_serve(setup.env, log=setup.log) as server:
            with server.client() as http:
                api = ApiHelper(http)
                base = api.create_base("Parked", onRestart="park")
                api.add_notes(base, f"Spelt waits {HELD_MARKER}")
                page = tabs.open(f"{server.url}/b/{base}")
                expect(page.get_by_role("row", name=re.compile("Spelt"))).to_contain_text("Embedding")
            server.kill()
        with run_serve(setup.env, log=setup.log) as server:
            page.goto(f"{server.url}/b/{base}")
            row = page.get_by_role("row", name=re.compile("Spelt"))
            expect(page.get_by_text("1 unfinished item")).to_be_visible(timeout=20_000)
            expect(row).to_contain_text("Failed")
            page.get_by_role("button", name="Recover").click()
            expect(page.get_by_text("1 unfinished item")).to_have_count(0)
            expect(row).to_contain_text("Indexed")
        assert tabs.errors == []


def test_all_failed_items_are_retried_with_one_click(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Many failed")
    api.add_unreadable_files(base, "one.bin", "two.bin")
    page.goto(f"{ui_url}/b/{base}?filter=failed")
    expect(page.get_by_role("row", name=re.compile(".bin"))).to_have_count(2)
    page.get_by_role("button", name="Retry all").click()
    expect(page.get_by_text("Reindexing 2 items")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("Failed"))).to_have_count(2)
    api.add_unreadable_files(base, *(f"more-{n}.bin" for n in range(10)))
    page.get_by_label("Filter by name").fill("more")
    expect(page.get_by_role("row", name=re.compile("more.*Failed"))).to_have_count(10)
    expect(page.get_by_role("row", name=re.compile("one.bin"))).to_have_count(0)
    page.get_by_role("button", name="Retry all").click()  # what is listed, and as many not without a question
    page.get_by_role("dialog", name="Reindex 10 items?").get_by_role("button", name="Reindex").click()
    expect(page.get_by_text("Reindexing 10 items")).to_be_visible()

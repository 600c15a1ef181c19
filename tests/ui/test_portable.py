"""A base leaves as one file, and comes back from it."""

import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.ui.harness import ApiHelper, violations


def test_a_base_is_exported_and_imported_on_the_pages(
    page: Page, ui_url: str, api: ApiHelper, tmp_path: Path
) -> None:
    base = api.create_base("Carried away")
    api.add_notes(base, "# Dressing\n\nThe miller sharpens the stones every spring.")
    page.goto(f"{ui_url}/b/{base}/settings")
    page.route("**/api/jobs/*", lambda route: route.abort(), times=1)  # the job goes on during an outage
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename == "Carried-away.gristmill"
    archive = tmp_path / "carried.gristmill"
    download.value.save_as(archive)
    assert violations(page) == []

    page.goto(ui_url)
    api.http.patch(f"/api/knowledge-bases/{base}", json={"name": "Stayed"})
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import").click()
    held: list[Route] = []
    page.route("**/knowledge-bases/import", lambda route: held.append(route))
    with page.expect_request("**/knowledge-bases/import"):
        chooser.value.set_files(archive)
    expect(page.get_by_text(re.compile(r"carried\.gristmill is being imported\. \d+%"))).to_be_visible()
    held[0].continue_()
    expect(page.get_by_text("Imported Carried away")).to_be_visible()
    expect(page.get_by_role("heading", name="Carried away")).to_be_visible()

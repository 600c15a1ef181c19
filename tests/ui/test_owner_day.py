"""A day of the owner of a base: retention, a legal hold, other chunks, an archive; by the keyboard alone and on a phone, each in one
language, and with THOROUGH=1 in both."""

from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.thorough import IS_THOROUGH
from tests.ui.harness import PHONE, WIDE, ApiHelper, profile
from tests.ui.test_operator_day import Operator

pytestmark = pytest.mark.browser

_ALL = [("keyboard", "zh-CN"), ("phone", "en-US"), ("keyboard", "en-US"), ("phone", "zh-CN")]


@pytest.mark.parametrize(("way", "language"), _ALL if IS_THOROUGH else _ALL[:2])
def test_a_day_of_the_owner_of_a_base(
    browser: Browser, ui_url: str, api: ApiHelper, tmp_path: Path, way: str, language: str
) -> None:
    """Everything that decides over a base can be done, and axe finds nothing in what opens."""
    name = f"owned{uuid4().hex[:6]}"
    base = api.create_base(name)
    api.add_notes(base, f"# Stones\n\nThe miller of {name} dresses the stones.")
    with profile(browser, WIDE if way == "keyboard" else PHONE, language=language) as tabs:
        owner = Operator(tabs.context.new_page(), ui_url, way == "keyboard", language)
        owner.open(f"/b/{base}/settings")
        set_retention(owner, base, api)
        hold_and_lift(owner, base, api)
        change_chunks_and_go_back(owner, base, api)
        archive = export(owner, name, tmp_path)
        api.http.patch(f"/api/knowledge-bases/{base}", json={"name": f"stayed {name}"})
        import_archive(owner, archive, name)
        assert tabs.errors == []


def set_retention(owner: Operator, base: str, api: ApiHelper) -> None:
    """Documents are deleted after ten years."""
    owner.type("Delete documents this many days after their last change", "3650")
    owner.press(owner.button("Set retention"))
    expect(owner.page.get_by_text(owner.word("Saved")).first).to_be_visible()
    assert api.http.get(f"/api/knowledge-bases/{base}/retention").json()["documentDays"] == 3650


def hold_and_lift(owner: Operator, base: str, api: ApiHelper) -> None:
    """A hold keeps the base from being deleted until it is lifted."""
    owner.type("Reason", "Case 7")
    owner.press(owner.button("Hold the whole base"))
    hold = owner.page.get_by_role("listitem").filter(has_text="Case 7")
    expect(hold).to_contain_text(owner.word("The whole base"))
    owner.check()
    assert api.http.delete(f"/api/knowledge-bases/{base}").json()["code"] == "legal_hold"
    owner.press(owner.button("Lift hold", hold))
    owner.confirm("Lift hold")
    expect(hold).to_have_count(0)


def change_chunks_and_go_back(owner: Operator, base: str, api: ApiHelper) -> None:
    """Other chunks are made, compared, used, and given up again."""
    owner.open_dialog("Change …")
    owner.choose("New model", owner.word("{name} (unchanged)", name="quick"))
    owner.choose("When the new vectors are complete", owner.word("Compare, and ask me"))
    owner.type("Maximum chunk size, in tokens", "64")
    owner.confirm("Change")
    use = owner.button("Use {name}", name="quick")
    expect(use).to_be_visible()
    owner.check()
    owner.press(use)
    back = owner.button("Back to the earlier chunking")
    expect(back).to_be_visible()
    assert api.http.get(f"/api/knowledge-bases/{base}").json()["chunking"] == {"maxTokens": 64}
    owner.press(back)
    expect(owner.field("Maximum chunk size, in tokens")).to_have_value("")
    assert api.http.get(f"/api/knowledge-bases/{base}").json()["chunking"] == {}


def export(owner: Operator, name: str, folder: Path) -> Path:
    """The base as a file."""
    with owner.page.expect_download() as download:
        owner.press(owner.button("Export"))
    assert download.value.suggested_filename == f"{name}.gristmill"
    archive = folder / "base.gristmill"
    download.value.save_as(archive)
    return archive


def import_archive(owner: Operator, archive: Path, name: str) -> None:
    """The file as a base of the same name."""
    owner.open("/")
    with owner.page.expect_file_chooser() as chooser:
        owner.press(owner.button("Import"))
    chooser.value.set_files(archive)
    expect(owner.page.get_by_role("heading", level=1).filter(has_text=name)).to_be_visible()
    owner.check()


def test_settings_that_someone_else_has_changed_are_not_taken_back(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """Two windows with the settings of a base. Sharing it does not let the older one overwrite what the other saved."""
    base = api.create_base("Two windows")
    page.goto(f"{ui_url}/b/{base}/settings")
    expect(page.get_by_label("Synonyms")).to_have_value("")
    theirs = {"settings": {"synonyms": [["mill", "grinder"]]}}
    assert api.http.patch(f"/api/knowledge-bases/{base}", json=theirs).is_success
    page.get_by_label("Person or group").fill("ann@x.org")
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_role("button", name="Stop sharing with ann@x.org")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("One window")
    page.get_by_role("button", name="Save").click()
    expect(
        page.get_by_role("alert").filter(has_text="Someone changed these settings meanwhile.")
    ).to_be_visible()
    shown = api.http.get(f"/api/knowledge-bases/{base}").json()
    assert (shown["name"], shown["settings"]["synonyms"]) == ("Two windows", [["mill", "grinder"]])

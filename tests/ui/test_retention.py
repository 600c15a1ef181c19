"""Retention and legal holds in the settings of a base."""

from playwright.sync_api import Page, expect

from tests.ui.harness import ApiHelper, violations


def test_a_base_gets_a_rule_and_a_hold_that_keeps_it(page: Page, ui_url: str, api: ApiHelper) -> None:
    base = api.create_base("Kept for the court")
    page.goto(f"{ui_url}/b/{base}/settings")
    page.get_by_label("Delete documents this many days").fill("3650")
    page.get_by_label("Keep earlier versions of documents").fill("90")
    page.get_by_role("button", name="Set retention").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    rule = api.http.get(f"/api/knowledge-bases/{base}/retention").json()
    assert (rule["documentDays"], rule["versionDays"], rule["eventDays"]) == (3650, 90, None)
    expect(page.get_by_text("Nothing in this base is under a hold.")).to_be_visible()
    page.get_by_label("Reason").fill("Case 7")
    page.get_by_role("button", name="Hold the whole base").click()
    hold = page.get_by_role("listitem").filter(has_text="Case 7")
    expect(hold).to_contain_text("The whole base")
    assert violations(page) == []
    assert api.http.delete(f"/api/knowledge-bases/{base}").json()["code"] == "legal_hold"
    hold.get_by_role("button", name="Lift hold").click()
    page.get_by_role("dialog").get_by_role("button", name="Lift hold").click()
    expect(hold).to_have_count(0)
    assert api.http.delete(f"/api/knowledge-bases/{base}").status_code == 202

"""What is around every page."""

from playwright.sync_api import Page, expect


def test_the_shell_comes_up_and_leads_to_every_page(page: Page, mill_url: str) -> None:
    page.goto(mill_url)
    expect(page.get_by_role("navigation", name="Pages").first).to_be_visible()

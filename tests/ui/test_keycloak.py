"""Signing in at a real Keycloak through the browser."""

import json
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests import reverse_proxy
from tests.gristmill_process import run_serve
from tests.ui.harness import profile, server_setup
from tests.ui.keycloak import CLIENT, SECRET, run_keycloak
from tests.ui.test_people import create_admin_key

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


def sign_in(page: Page) -> None:
    """Sign in as Ann, on Keycloak's own page."""
    page.get_by_role("link", name="Sign in with Keycloak").click()
    page.locator("#username").fill("ann")
    page.locator("#password").fill("any")
    page.locator("#kc-login").click()


def test_a_person_of_keycloak_signs_in_changes_groups_and_is_out_when_removed(
    browser: Browser, server_url: str, cache_dir: Path, tmp_path: Path
) -> None:
    """A changed group counts from the next sign-in on, a removal by SCIM at once, for sessions and keys."""
    port = reverse_proxy.free_address()[1]
    url = f"http://127.0.0.1:{port}"
    with (
        run_keycloak(cache_dir, tmp_path, url) as keycloak,
        server_setup(
            server_url,
            cache_dir,
            require_key="true",
            oidc_issuer=keycloak.issuer,
            oidc_client_id=CLIENT,
            oidc_client_secret=SECRET,
            oidc_scopes="openid email profile",
            oidc_roles=json.dumps({"editors": "editor"}),
            oidc_name="Keycloak",
        ) as setup,
        run_serve(setup.env, log=setup.log, port=str(port)) as server,
    ):
        headers = {"Authorization": f"Bearer {create_admin_key(setup.env['GRISTMILL_DATABASE_URL'])}"}
        with (
            httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as admin,
            profile(browser) as tabs,
        ):
            page = tabs.open(f"{url}/settings/general")
            sign_in(page)
            expect(page.get_by_text("Signed in as Ann Lee (ann@x.org, role: reader).")).to_be_visible()
            groups = [group["name"] for group in admin.get("/api/groups").json()["items"]]
            assert groups == ["research"]
            page.get_by_role("button", name="Sign out", exact=True).click()
            page.get_by_role("button", name="Logout").click()  # Keycloak asks
            expect(page.get_by_role("heading", name="Sign in to Gristmill")).to_be_visible()

            keycloak.move_to_group("ann", "editors")
            sign_in(page)
            page.goto(f"{url}/settings/general")
            expect(page.get_by_text("Signed in as Ann Lee (ann@x.org, role: editor).")).to_be_visible()
            (user,) = admin.get("/api/users").json()["items"]
            body = {"name": "k", "role": "reader", "userId": user["id"]}
            key = admin.post("/api/api-keys", json=body).json()["key"]
            cookies = {
                cookie.get("name", ""): cookie.get("value", "") for cookie in tabs.context.cookies(url)
            }
            with (
                httpx.Client(base_url=url, cookies=cookies, trust_env=False, timeout=60) as session,
                httpx.Client(
                    base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60
                ) as by_key,
            ):
                assert {client.get("/api/session").status_code for client in (session, by_key)} == {200}
                removal = {"Operations": [{"op": "Replace", "path": "active", "value": "False"}]}
                assert admin.patch(f"/scim/v2/Users/{user['id']}", json=removal).status_code == 200
                assert {client.get("/api/session").status_code for client in (session, by_key)} == {401}
            page.reload()
            page.get_by_role("link", name="Sign in with Keycloak").click()
            expect(page.get_by_role("alert")).to_contain_text("Your account is not active")

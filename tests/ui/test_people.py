"""Signing in through the browser, with a password and at a real OpenID provider, and sharing a base."""

import asyncio
import json
import subprocess
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from gristmill.db import Database
from gristmill.identity import LOCAL_ORG
from tests import reverse_proxy
from tests.gristmill_process import run_serve
from tests.node_packages import install_package, node
from tests.server.clients import new_key
from tests.ui.harness import profile, server_setup, violations

PROVIDER = "oidc-provider@9.13.3"  # certified by the OpenID Foundation
PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Company:
    """A server, an admin's client of its API, and the people at the provider."""

    url: str
    admin: httpx.Client
    people: Path

    def change(self, **people: dict[str, Any]) -> None:
        """Change people at the provider."""
        self.people.write_text(json.dumps(people))

    def key_of(self, email: str) -> httpx.Client:
        """A client with a new key of a user."""
        (user,) = self.admin.get("/api/users", params={"q": email}).json()["items"]
        body = {"name": "k", "role": "reader", "userId": user["id"]}
        key = self.admin.post("/api/api-keys", json=body).json()["key"]
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60, verify=False)


@contextmanager
def open_id_provider(folder: Path, people: Path, url: str) -> Generator[str]:
    """The issuer of a running provider."""
    script = Path(__file__).with_name("provider.mjs")
    words = [node(), str(script), str(people), f"{url}/api/session/oidc/callback", f"{url}/sign-in"]
    process = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        with process.stdout as output:
            yield next(line for line in output if line.startswith("READY ")).split()[1]
    finally:
        process.kill()
        process.wait(120)


@pytest.fixture
def company(server_url: str, cache_dir: Path, tmp_path: Path) -> Generator[Company]:
    """A server that needs credentials, and a provider that it knows."""
    people = tmp_path / "people.json"
    people.write_text("{}")
    address, port = reverse_proxy.free_address()
    url = f"https://{address}:{port}" if reverse_proxy.BEHIND_NGINX else f"http://127.0.0.1:{port}"
    with (
        open_id_provider(install_package(cache_dir, PROVIDER), people, url) as issuer,
        server_setup(
            server_url,
            cache_dir,
            require_key="true",
            oidc_issuer=issuer,
            oidc_client_id="gristmill",
            oidc_client_secret="a secret with / and +",
            oidc_scopes="openid email profile groups",
            oidc_roles=json.dumps({"editors": "editor"}),
            oidc_name="Mill ID",
        ) as setup,
    ):
        secret = create_admin_key(setup.env["GRISTMILL_DATABASE_URL"])
        with run_serve(setup.env, log=setup.log, port=str(port)) as server:
            headers = {"Authorization": f"Bearer {secret}"}
            with httpx.Client(
                base_url=server.url, headers=headers, trust_env=False, timeout=60, verify=False
            ) as admin:
                yield Company(server.url, admin, people)


def create_admin_key(database_url: str) -> str:
    """An admin's key, made in a thread of its own: Playwright has a loop in this one."""

    async def create() -> str:
        db = Database(database_url)
        await db.open()
        secret = (await new_key(db, LOCAL_ORG, "admin"))[1]
        await db.close()
        return secret

    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, create()).result()


def sign_in_at_provider(page: Page, name: str) -> None:
    page.get_by_role("link", name="Sign in with Mill ID").click()
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_signs_in_at_a_real_provider_and_is_out_when_removed(
    browser: Browser, company: Company
) -> None:
    """The groups of the provider decide what they see; a changed group counts from the next sign-in on, a removal at once,
    for sessions and keys."""
    ann = {"email": "ann@x.org", "email_verified": True, "name": "Ann Lee", "groups": ["research"]}
    eve = {**ann, "email": "eve@x.org", "email_verified": False}
    company.change(ann=ann, eve=eve)
    group = company.admin.post("/api/groups", json={"name": "everyone"}).json()
    base = company.admin.post("/api/knowledge-bases", json={"name": "Findings", "acl": []}).json()
    with profile(browser) as tabs:
        page = tabs.open(f"{company.url}/b/{base['id']}")
        expect(page.get_by_role("heading", name="Sign in to Gristmill")).to_be_visible()
        assert violations(page) == []
        sign_in_at_provider(page, "ann")
        expect(page).to_have_url(f"{company.url}/b/{base['id']}")
        groups = {entry["name"]: entry for entry in company.admin.get("/api/groups").json()["items"]}
        members = {"groupIds": [groups["research"]["id"]]}
        company.admin.post(f"/api/groups/{group['id']}/members", json=members)
        share = {"principal": "group:everyone", "role": "reader"}
        company.admin.put(f"/api/knowledge-bases/{base['id']}/shares", json=share)
        page.goto(company.url)
        expect(page.get_by_role("link", name="Findings").first).to_be_visible()
        assert page.evaluate("document.cookie") == ""

        page.goto(f"{company.url}/settings/general")
        expect(page.get_by_text("Signed in as Ann Lee (ann@x.org, role: reader).")).to_be_visible()
        page.get_by_role("button", name="Sign out", exact=True).click()
        page.get_by_role("button", name="Yes, sign me out").click()
        expect(page.get_by_role("heading", name="Sign in to Gristmill")).to_be_visible()

        company.change(ann={**ann, "groups": ["editors"]}, eve=eve)
        sign_in_at_provider(page, "ann")
        page.goto(f"{company.url}/settings/general")
        expect(page.get_by_text("Signed in as Ann Lee (ann@x.org, role: editor).")).to_be_visible()
        cookies = {cookie.get("name", ""): cookie.get("value", "") for cookie in tabs.context.cookies()}
        with (
            httpx.Client(
                base_url=company.url, cookies=cookies, trust_env=False, timeout=60, verify=False
            ) as session,
            company.key_of("ann@x.org") as key,
        ):
            clients = (session, key)
            assert {client.get("/api/session").status_code for client in clients} == {200}
            path = f"/api/knowledge-bases/{base['id']}"
            assert {client.get(path).status_code for client in clients} == {404}, "not in research any more"
            (user,) = company.admin.get("/api/users").json()["items"]
            removal = {"Operations": [{"op": "Replace", "path": "active", "value": "False"}]}
            assert company.admin.patch(f"/scim/v2/Users/{user['id']}", json=removal).status_code == 200
            assert {client.get("/api/session").status_code for client in clients} == {401}
        page.reload()
        expect(page.get_by_role("heading", name="Sign in to Gristmill")).to_be_visible()
        page.get_by_role("link", name="Sign in with Mill ID").click()
        expect(page.get_by_role("alert")).to_contain_text("Your account is not active")
    with profile(browser) as tabs:
        page = tabs.open(f"{company.url}/sign-in")
        sign_in_at_provider(page, "eve")
        expect(page.get_by_role("alert")).to_contain_text("not verified your email address")


def test_an_admin_shares_a_base_and_a_person_with_a_password_sees_it(
    browser: Browser, server_url: str, cache_dir: Path
) -> None:
    """The list shows names; a share is removed with one click. In both languages the page has no accessibility violation."""
    with server_setup(server_url, cache_dir, require_key="true") as setup:
        secret = create_admin_key(setup.env["GRISTMILL_DATABASE_URL"])
        with run_serve(setup.env, log=setup.log) as server:
            headers = {"Authorization": f"Bearer {secret}"}
            with httpx.Client(
                base_url=server.url, headers=headers, trust_env=False, timeout=60, verify=False
            ) as admin:
                for name, role in (("ann", "admin"), ("bob", "reader")):
                    body = {
                        "email": f"{name}@x.org",
                        "name": name.title(),
                        "role": role,
                        "password": PASSWORD,
                    }
                    assert admin.post("/api/users", json=body).status_code == 201
                base = admin.post("/api/knowledge-bases", json={"name": "Recipes"}).json()["id"]
            with profile(browser) as tabs, profile(browser) as other:
                page = tabs.open(f"{server.url}/b/{base}/settings")
                sign_in_with_password(page, "ann@x.org")
                page.get_by_label("Person or group").fill("bob@x.org")
                page.get_by_label("May", exact=True).select_option("editor")
                page.get_by_role("button", name="Share", exact=True).click()
                row = page.get_by_role("list", name="Shared with").get_by_role("listitem")
                expect(row).to_contain_text("Bob")
                assert violations(page) == []
                theirs = other.open(server.url)
                sign_in_with_password(theirs, "bob@x.org")
                expect(theirs.get_by_role("link", name="Recipes").first).to_be_visible()
                make_and_revoke_a_key(theirs, server.url)
                with page.expect_response(lambda response: response.request.method == "PUT"):
                    row.get_by_label("What Bob may do").focus()
                    row.get_by_label("What Bob may do").select_option("owner")
                theirs.goto(f"{server.url}/b/{base}")
                theirs.get_by_role("button", name="Settings").click()
                expect(theirs.get_by_role("list", name="Shared with")).to_contain_text("Bob")
                expect(theirs.get_by_role("button", name="Delete base")).to_be_visible()
                expect(theirs.get_by_role("button", name="Preview")).to_have_count(0)  # admins only
                expect(row.get_by_label("What Bob may do")).to_be_focused()
                with page.expect_response(lambda response: response.request.method == "DELETE"):
                    row.get_by_role("button", name="Stop sharing with Bob").click()
                expect(row).to_have_count(0)
                theirs.reload()
                expect(theirs.get_by_text("Recipes")).to_have_count(0)
                assert tabs.errors == other.errors == []


def make_and_revoke_a_key(page: Page, url: str) -> None:
    """A person makes a key of their own, uses it, and revokes it."""
    page.goto(f"{url}/settings/general")
    page.get_by_role("button", name="New key").first.click()
    expect(page.get_by_label("Role").get_by_role("option")).to_have_text(["reader"])  # no more than their own
    page.get_by_label("Name").fill("notebook")
    page.get_by_role("button", name="Create").click()
    secret = page.locator("code.secret").inner_text()
    page.get_by_role("button", name="Done").click()
    headers = {"Authorization": f"Bearer {secret}"}
    caller = httpx.get(f"{url}/api/session", headers=headers, trust_env=False, verify=False).json()
    assert caller["user"]["email"] == "bob@x.org"
    page.get_by_role("button", name="Revoke notebook").click()
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No API keys yet")).to_be_visible()
    assert httpx.get(f"{url}/api/session", headers=headers, trust_env=False, verify=False).status_code == 401


def sign_in_with_password(page: Page, email: str) -> None:
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()

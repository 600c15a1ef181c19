"""A real Keycloak, fetched with Maven and started for a test: its realm has one client, Gristmill."""

import json
import os
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.reverse_proxy import free_address
from tests.wait_until import LIMIT

VERSION = "26.0.7"  # the last series that runs with Java 17
REALM, CLIENT, SECRET = "mill", "gristmill", "a secret with / and +"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_ADMIN = ("admin", "the admin of a test")
_FETCH_TIMEOUT = 600


def install(cache_dir: Path) -> Path:
    """Its folder, kept between runs. Skips the test where it can't be had."""
    folder = cache_dir / f"keycloak-{VERSION}"
    if folder.is_dir():
        return folder
    maven, java = shutil.which("mvn"), shutil.which("java")
    if maven is None or java is None:
        pytest.skip(
            "Keycloak is fetched with Maven and runs with Java: install both, or put them on the PATH"
        )
    cache_dir.mkdir(parents=True, exist_ok=True)
    artifact = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
    fetched = subprocess.run(
        [maven, "-B", "-q", _PLUGIN, f"-Dartifact={artifact}", f"-DoutputDirectory={cache_dir}"],
        capture_output=True,
        timeout=_FETCH_TIMEOUT,
    )
    if fetched.returncode != 0:
        pytest.skip(f"Maven can't fetch Keycloak {VERSION}: no registry can be reached")
    archive = cache_dir / f"keycloak-quarkus-dist-{VERSION}.zip"
    with zipfile.ZipFile(archive) as content:
        content.extractall(cache_dir)
    archive.unlink()
    return folder


@dataclass(frozen=True)
class Keycloak:
    """A running Keycloak, and what an administrator does there."""

    url: str
    admin: httpx.Client

    @property
    def issuer(self) -> str:
        """The issuer of its realm."""
        return f"{self.url}/realms/{REALM}"

    def request(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Call the API of the administrator. Its tokens are short-lived, so each request gets a new one."""
        form = {"client_id": "admin-cli", "grant_type": "password"}
        form |= {"username": _ADMIN[0], "password": _ADMIN[1]}
        token = self.admin.post("/realms/master/protocol/openid-connect/token", data=form).json()
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        response = self.admin.request(method, f"/admin/realms{path}", json=body, headers=headers)
        response.raise_for_status()
        return response

    def move_to_group(self, name: str, group: str) -> None:
        """Make a group the only one of a person."""
        (person,) = self.request("GET", f"/{REALM}/users?username={name}&exact=true").json()
        user = f"/{REALM}/users/{person['id']}/groups"
        for old in self.request("GET", user).json():
            self.request("DELETE", f"{user}/{old['id']}")
        groups = {entry["name"]: entry["id"] for entry in self.request("GET", f"/{REALM}/groups").json()}
        self.request("PUT", f"{user}/{groups[group]}")


def realm(url: str) -> dict[str, Any]:
    """A realm with two groups, Ann, and the client at `url`, whose tokens name the groups of a person."""
    groups = {
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true"},
    }
    client = {
        "clientId": CLIENT,
        "secret": SECRET,
        "redirectUris": [f"{url}/api/session/oidc/callback"],
        "attributes": {"post.logout.redirect.uris": f"{url}/sign-in"},
        "protocolMappers": [groups],
    }
    ann = {
        "username": "ann",
        "enabled": True,
        "email": "ann@x.org",
        "emailVerified": True,
        "firstName": "Ann",
        "lastName": "Lee",
        "groups": ["research"],
        "credentials": [{"type": "password", "value": "any"}],
    }
    return {
        "realm": REALM,
        "enabled": True,
        "sslRequired": "none",
        "groups": [{"name": "research"}, {"name": "editors"}],
        "clients": [client],
        "users": [ann],
    }


@contextmanager
def run_keycloak(cache_dir: Path, folder: Path, url: str) -> Generator[Keycloak]:
    """Start one with the realm of a Gristmill at `url`."""
    home = folder / "keycloak"
    shutil.copytree(install(cache_dir), home, symlinks=True)
    (home / "data/import").mkdir(parents=True)
    (home / "data/import/realm.json").write_text(json.dumps(realm(url)))
    address, port = free_address()
    env = {"KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN[0], "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN[1]}
    words = ["start-dev", "--import-realm", f"--http-host={address}", f"--http-port={port}"]
    log = folder / "keycloak.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["/bin/bash", str(home / "bin/kc.sh"), *words],
            env=os.environ | env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    keycloak_url = f"http://{address}:{port}"
    try:
        with httpx.Client(base_url=keycloak_url, trust_env=False, timeout=60) as admin:
            keycloak = Keycloak(keycloak_url, admin)
            wait_until_ready(keycloak, process, log)
            yield keycloak
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(120)


def wait_until_ready(keycloak: Keycloak, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the realm is imported. The first start of a copy compiles it, which takes a minute on a busy machine."""
    end = time.monotonic() + 20 * LIMIT
    while True:
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < end, log.read_text()[-2000:]
        try:
            if keycloak.admin.get(f"{keycloak.issuer}/.well-known/openid-configuration").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)  # a process of its own: there is nothing to wait for but the clock

"""A back-up that is made while the sealing key is rotated has the keys that open its secrets."""

import threading
from pathlib import Path

import psycopg
import pytest

from gristmill.db import local_server
from gristmill.vault import Vault
from tests.backup.test_backup import Installation
from tests.gristmill_process import environment, run_serve

pytestmark = [pytest.mark.slow, pytest.mark.crash]


@pytest.mark.thorough
def test_a_restored_backup_opens_its_secrets_whatever_the_rotation_was_at(
    tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    data = tmp_path / "data"
    installation = Installation(
        data, str(tmp_path / "backups"), environment(data, cache_dir, **quick_embedder)
    )
    rotations: list[object] = []
    done = threading.Event()

    def keep_rotating() -> None:
        while not done.is_set() and len(rotations) < 4:
            rotations.append(installation.run("secrets", "rotate"))

    with run_serve(installation.env, log=tmp_path / "log") as server, server.client() as http:
        for number in range(60):  # more than the rotation seals in one transaction
            body = {"url": f"https://receiver.example/{number}", "types": ["BaseCreated"]}
            http.post("/api/webhooks", json=body).raise_for_status()
        first_key = (data / "secret.key").read_text()
        rotating = threading.Thread(target=keep_rotating)
        rotating.start()
        try:
            report = installation.run("backup", installation.destination)
        finally:
            done.set()
            rotating.join()
        assert isinstance(report, dict), report
        assert all(isinstance(rotation, dict) for rotation in rotations), rotations
        server.stop()
    assert (data / "secret.key").read_text() != first_key
    restored = tmp_path / "restored"
    assert isinstance(installation.restore(restored), dict)
    vault, database = Vault(None, restored), local_server.start(restored)
    try:
        with psycopg.connect(database.url) as connection:
            rows = connection.execute("select id::text, secret from webhook").fetchall()
    finally:
        database.close()
    assert len(rows) == 60
    for row_id, sealed in rows:
        assert vault.open(sealed, row_id).startswith("whsec_")

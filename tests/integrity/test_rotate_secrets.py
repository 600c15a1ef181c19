"""What a rotation of the sealing key does with values of every kind, of lost keys, and of processes that are late."""

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from psycopg import sql
from pydantic import SecretStr

from gristmill.db import Database, DatabaseUnavailable
from gristmill.errors import Conflict, SetupError
from gristmill.identity import LOCAL_ORG, sealing
from gristmill.identity.idempotency import RequestKey
from gristmill.integrity.rotate_secrets import BATCH_SIZE, rotate_sealing_key
from gristmill.vault import SecretUnreadable, Vault, new_key, read_keys, write_keys


async def insert_webhook(db: Database, vault: Vault, *, sealed: bytes | None = None) -> str:
    row_id = uuid4()
    async with db.transaction() as tx:
        await tx.execute(
            "insert into webhook (id, url, secret, cursor) values (%s, 'https://x.example', %s, 0)",
            [row_id, sealed or vault.seal("whsec", str(row_id))],
        )
    return str(row_id)


async def insert_one_of_each(db: Database, vault: Vault) -> None:
    connector, embedder = uuid4(), uuid4()
    request = RequestKey(LOCAL_ORG, "local", "one")
    async with db.transaction() as tx:
        await tx.execute(
            "insert into connector (id, name, type, config, credentials, schedule, acl_schedule) "
            "values (%s, 'work', 'feed', '{}', %s, '0 0 * * *', '0 0 * * *')",
            [connector, vault.seal("token", f"connector:{connector}")],
        )
        await tx.execute(
            "insert into embedder (id, org_id, name, kind, config, api_key) values (%s, %s, 'e', 'openai', '{}', %s)",
            [embedder, LOCAL_ORG, vault.seal("sk", f"embedder:{embedder}")],
        )
        await tx.execute(
            "insert into idempotency (org_id, caller, key, token, fingerprint, state, answer) "
            "values (%s, %s, %s, %s, '', 'answered', %s)",
            [request.org, request.caller, request.key, uuid4(), vault.seal("{}", request.vault_context)],
        )


async def test_every_kind_of_value_is_resealed_and_the_old_key_is_dropped(
    db: Database, tmp_path: Path
) -> None:
    server, command = Vault(None, tmp_path), Vault(None, tmp_path)
    await insert_one_of_each(db, server)
    hook = await insert_webhook(db, server)
    for _ in range(BATCH_SIZE):
        await insert_webhook(db, server)
    (old,) = read_keys(tmp_path / "secret.key")
    legacy_id = str(uuid4())
    nonce = b"n" * 12
    legacy = nonce + AESGCM(old).encrypt(nonce, b"legacy", legacy_id.encode())
    async with db.transaction() as tx:
        await tx.execute(
            "insert into webhook (id, url, secret, cursor) values (%s, 'https://x.example', %s, 0)",
            [legacy_id, legacy],
        )
    lost = await insert_webhook(db, server, sealed=Vault(None, tmp_path / "lost").seal("x", "y"))

    result = await rotate_sealing_key(db, command)

    assert (result.resealed, result.unreadable, result.continued) == (BATCH_SIZE + 5, 1, False)
    assert len(read_keys(tmp_path / "secret.key")) == 1
    async with db.connection() as tx:
        counts = {(row.thing, row.key_id): row.count for row in await sealing.count_values(tx)}
        rows = dict(await (await tx.execute("select id::text, secret from webhook")).fetchall())
    lost_key = Vault(None, tmp_path / "lost").key_ids[0]
    assert counts == {
        ("connector", result.key_id): 1,
        ("embedder", result.key_id): 1,
        ("response", result.key_id): 1,
        ("webhook", result.key_id): BATCH_SIZE + 2,
        ("webhook", lost_key): 1,
    }
    assert server.open(rows[hook], hook) == "whsec", "a running process reads the new key by itself"
    assert server.open(rows[legacy_id], legacy_id) == "legacy"
    with pytest.raises(SecretUnreadable):
        server.open(rows[lost], lost)
    assert server.seal("x", "y").startswith(command.prefix)


async def test_a_process_that_seals_with_a_retired_key_is_refused(db: Database, tmp_path: Path) -> None:
    """Else its secret would be lost with the key."""
    vault = Vault(None, tmp_path)
    row_id = str(uuid4())
    sealed_before = vault.seal("whsec", row_id)
    await rotate_sealing_key(db, Vault(None, tmp_path))
    with pytest.raises(DatabaseUnavailable) as refused:
        await insert_webhook(db, vault, sealed=sealed_before)
    assert refused.value.code == "sealing_key_replaced"
    assert vault.open(sealed_before, row_id) == "whsec", "what was read before still opens"
    await insert_webhook(db, vault)


async def test_keys_of_the_settings_are_resealed_but_not_written(db: Database, tmp_path: Path) -> None:
    old, new = (tmp_path / name for name in ("old.key", "new.key"))
    write_keys(old, [new_key()])
    write_keys(new, [new_key()])
    before = Vault(SecretStr(old.read_text()), tmp_path)
    hook = await insert_webhook(db, before)
    alone = await rotate_sealing_key(db, before)
    assert (alone.retired, alone.resealed) == ((), 0)
    both = Vault(SecretStr(f"{new.read_text().strip()},{old.read_text().strip()}"), tmp_path)
    result = await rotate_sealing_key(db, both)
    assert (result.retired, result.resealed) == (before.key_ids, 1)
    async with db.connection() as tx:
        rows = await (await tx.execute("select secret from webhook")).fetchall()
    assert Vault(SecretStr(new.read_text()), tmp_path).open(rows[0][0], hook) == "whsec"
    with pytest.raises(SetupError, match="does not exist"):
        Vault(None, tmp_path, tmp_path / "absent").seal("x", "y")
    assert not (tmp_path / "secret.key").exists()


async def test_a_process_with_another_first_key_keeps_the_old_one_in_use(
    db: Database, tmp_path: Path
) -> None:
    """The rotation gives up with a reason instead of dropping a key that something still needs."""
    vault = Vault(None, tmp_path)
    assert vault.key_ids
    old = Vault(SecretStr((tmp_path / "secret.key").read_text()), tmp_path)
    command = Vault(None, tmp_path)
    async with await psycopg.AsyncConnection.connect(db.url, autocommit=True) as other:
        body = f"begin new.secret := '\\x{old.prefix.hex()}'; return new; end"
        await other.execute(
            sql.SQL("create function keep_old() returns trigger language plpgsql as {}").format(body)
        )
        await other.execute(
            "create trigger keep_old before update on webhook for each row execute function keep_old()"
        )
    await insert_webhook(db, old)
    with pytest.raises(Conflict) as refused:
        await rotate_sealing_key(db, command)
    assert refused.value.code == "old_key_in_use"
    assert len(read_keys(tmp_path / "secret.key")) == 2


async def test_a_key_file_of_the_settings_is_read_again_when_it_changes(db: Database, tmp_path: Path) -> None:
    """The operator adds a key in front, rotates, and removes the old one; a running process follows without a restart."""
    file, old, new = tmp_path / "keys", new_key(), new_key()
    write_keys(file, [old])
    server = Vault(None, tmp_path, file)
    hook = await insert_webhook(db, server)
    write_keys(file, [new, old])
    result = await rotate_sealing_key(db, Vault(None, tmp_path, file))
    assert (result.resealed, read_keys(file)) == (1, [new, old]), "the file is the operator's"
    write_keys(file, [new])
    async with db.connection() as tx:
        row = await (await tx.execute("select secret from webhook where id = %s", [hook])).fetchone()
    assert row is not None
    assert row[0].startswith(server.prefix), "the process has read the file again"
    assert server.open(row[0], hook) == "whsec"
    assert Vault(None, tmp_path, file).open(row[0], hook) == "whsec"

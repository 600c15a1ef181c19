"""Dovecot from the system's packages as the IMAP server of a test."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

from imapclient import IMAPClient

from tests import reverse_proxy

DOVECOT = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
# It changes to users that its package creates.
CAN_RUN = DOVECOT is not None and os.geteuid() == 0
USER, PASSWORD = "ann@example.org", "s3cret"
_LOOKS, _PAUSE = 500, 0.02
_CONFIG = """
protocols = imap
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
ssl = required
ssl_cert = <{certificate}
ssl_key = <{key}
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Trash {{
    auto = create
    special_use = \\Trash
  }}
}}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {port}
  }}
}}
service stats {{
  unix_listener stats-writer {{
    mode = 0666
  }}
}}
"""


@dataclass(frozen=True)
class Dovecot:
    """A running server with one mailbox."""

    port: int
    folder: Path

    def config(self) -> dict[str, Any]:
        """The configuration of a connector to it."""
        return {"host": "127.0.0.1", "port": self.port}

    def credentials(self) -> dict[str, Any]:
        """The credentials of its user."""
        return {"username": USER, "password": PASSWORD}

    @contextmanager
    def client(self) -> Generator[Any]:
        """A mail program of the user."""
        context = reverse_proxy.client_tls()
        with IMAPClient("127.0.0.1", self.port, ssl=True, ssl_context=context, timeout=30) as client:
            client.login(USER, PASSWORD)
            yield cast(Any, client)


def message(
    subject: str, text: str, *, message_id: str | None = None, attachment: str | None = None
) -> bytes:
    """A message, with an attachment of text perhaps."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "Bob <bob@example.org>", USER
    mail["Date"] = "Mon, 16 Nov 2026 10:00:00 +0000"
    if message_id is not None:
        mail["Message-ID"] = message_id
    mail.set_content(text)
    if attachment is not None:
        mail.add_attachment(attachment.encode(), maintype="text", subtype="markdown", filename="list.md")
    return mail.as_bytes()


@contextmanager
def run_dovecot(port: int = 0, folder: Path | None = None) -> Generator[Dovecot]:
    """Dovecot on a free port, or this one; a folder from before has its mail."""
    assert DOVECOT is not None
    _, port = reverse_proxy.free_address(port)
    place = folder or Path(tempfile.mkdtemp(prefix="gristmill-dovecot-"))
    owner = pwd.getpwnam("nobody")
    certificate = reverse_proxy.certificate()
    place.chmod(0o755)
    (place / "mail").mkdir(exist_ok=True)
    shutil.chown(place / "mail", owner.pw_uid, owner.pw_gid)
    config = place / "dovecot.conf"
    config.write_text(
        _CONFIG.format(
            folder=place,
            certificate=certificate.path,
            key=certificate.key_path,
            password=PASSWORD,
            uid=owner.pw_uid,
            gid=owner.pw_gid,
            port=port,
        )
    )
    process = subprocess.Popen(
        [DOVECOT, "-F", "-c", str(config)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait_for_port(process, port, place)
        yield Dovecot(port, place)
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the processes of open connections too
        process.wait(30)


def _wait_for_port(process: "subprocess.Popen[bytes]", port: int, place: Path) -> None:
    log = place / "log"
    for _ in range(_LOOKS):
        assert process.poll() is None, log.read_text()[-3000:] if log.exists() else "no log"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(_PAUSE)
    raise AssertionError(f"Dovecot does not listen: {log.read_text()[-3000:]}")

"""Dovecot from the system's packages as an IMAP server."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

from imapclient import IMAPClient

from tests import reverse_proxy
from tests.connectors.servers import ServerUnavailable, run_program

USER, PASSWORD = "ann@example.org", "s3cret"
_CONFIG = """
protocols = imap
base_dir = {folder}/run
state_dir = {folder}/state
log_path = /dev/stderr
ssl = required
ssl_cert = <{certificate}
ssl_key = <{key}
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
mail_plugins = acl
plugin {{
  acl = vfile
}}
passdb {{
  driver = static
  mechanisms = plain
  args = password={password}
}}
{oauth}
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
  mailbox "[Gmail]/All Mail" {{
    special_use = \\All
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
# XOAUTH2 alone; `oauth2.conf` says who answers for tokens.
_OAUTH = """
auth_mechanisms = plain xoauth2
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {folder}/oauth2.conf
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

    def end_connections(self) -> None:
        """Have the server end all connections, as it does when it is updated."""
        subprocess.run(
            ["doveadm", "-c", str(self.folder / "dovecot.conf"), "kick", "*"], check=True, capture_output=True
        )

    def close_folder(self, name: str) -> None:
        """Have the server name a folder that it refuses to open."""
        (self.folder / "mail" / USER / f".{name}" / "dovecot-acl").write_text("owner l\n")

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


def find_dovecot() -> str | None:
    """The program, if it is installed and may be started: it changes to users that its package creates."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    return shutil.which("dovecot", path=path) if os.geteuid() == 0 else None


@contextmanager
def run_dovecot(port: int = 0, folder: Path | None = None, *, token_info: str = "") -> Generator[Dovecot]:
    """Dovecot on a free port, or this one; a folder from before has its mail. With the beginning of an address at which a token is
    looked up, it also accepts tokens."""
    program = find_dovecot()
    if program is None:
        raise ServerUnavailable("it needs Dovecot (Debian's dovecot-imapd), and root to start it")
    _, port = reverse_proxy.free_address(port)
    place = folder or Path(tempfile.mkdtemp(prefix="gristmill-dovecot-"))
    owner = pwd.getpwnam("nobody")
    certificate = reverse_proxy.certificate()
    place.chmod(0o755)
    (place / "mail").mkdir(exist_ok=True)
    shutil.chown(place / "mail", owner.pw_uid, owner.pw_gid)
    (place / "oauth2.conf").write_text(f"tokeninfo_url = {token_info}\nusername_attribute = email\n")
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
            oauth=_OAUTH.format(folder=place) if token_info else "",
        )
    )
    with run_program([program, "-F", "-c", str(config)], port, place / "output"):
        yield Dovecot(port, place)

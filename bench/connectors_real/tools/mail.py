"""A mailbox of Dovecot."""

import hashlib
import subprocess
from contextlib import ExitStack
from typing import Any

from bench.connectors_real.packages import require_packages
from bench.connectors_real.tool import Move, Place, RealTool, ServerAddress
from tests.connectors.fakes.tool import ExpectedDocument
from tests.connectors.servers import dovecot

_COUNT = 24
_INBOX, _OTHER, _TRASH = "INBOX", "Mühle/Räder", "Trash"


class ImapTool(RealTool):
    """Mail in two folders; what is moved to the trash is hidden. Requests are pieces of an encrypted connection."""

    name = kind = "imap"

    def __init__(self) -> None:
        super().__init__()
        self._mails: dict[str, tuple[str, str]] = {}  # folder and word, by message id
        self._hidden: dict[str, tuple[str, str]] = {}
        self._count = 0

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        require_packages(place, "dovecot-imapd")
        self._dovecot = stack.enter_context(dovecot.run_dovecot(folder=place.subfolder("dovecot")))
        program = dovecot.find_dovecot()
        assert program is not None
        self.server = f"Dovecot {subprocess.check_output([program, '--version'], text=True).split()[0]}"
        with self._dovecot.client() as mailbox:
            mailbox.create_folder(_OTHER)
        for _ in range(_COUNT):
            self.add()
        return ServerAddress(self._dovecot.port, "tcp")

    def config(self, url: str) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": int(url.rpartition(":")[2])}

    def credentials(self) -> dict[str, Any]:
        return self._dovecot.credentials()

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            _source_id(message_id): ExpectedDocument(
                frozenset({word}), frozenset({f"user_email:{dovecot.USER}"})
            )
            for message_id, (_, word) in self._mails.items()
        }

    def add(self) -> set[str]:
        self._count += 1
        message_id, folder, word = f"<{self._count}@mill>", (_INBOX, _OTHER)[self._count % 2], self.new_word()
        text = dovecot.message(f"Grain {self._count}", f"text {word}", message_id=message_id)
        with self._dovecot.client() as mailbox:
            mailbox.append(folder, text)
        self._mails[message_id] = (folder, word)
        return {_source_id(message_id)}

    def delete(self) -> set[str]:
        message_id = next(iter(self._mails))
        with self._dovecot.client() as mailbox:
            mailbox.select_folder(self._mails[message_id][0])
            mailbox.delete_messages(self._find(mailbox, message_id))
            mailbox.expunge()
        del self._mails[message_id]
        return {_source_id(message_id)}

    def rename(self) -> Move:
        message_id, (folder, word) = next(iter(self._mails.items()))
        target = _OTHER if folder == _INBOX else _INBOX
        self._move(message_id, folder, target)
        self._mails[message_id] = (target, word)
        return Move(_source_id(message_id), _source_id(message_id))

    def hide(self) -> set[str]:
        message_id = next(iter(self._mails))
        self._hidden[message_id] = self._mails.pop(message_id)
        self._move(message_id, self._hidden[message_id][0], _TRASH)
        return {_source_id(message_id)}

    def show(self) -> None:
        for message_id, (folder, _) in self._hidden.items():
            self._move(message_id, _TRASH, folder)
        self._mails |= self._hidden
        self._hidden.clear()

    def _move(self, message_id: str, folder: str, target: str) -> None:
        with self._dovecot.client() as mailbox:
            mailbox.select_folder(folder)
            mailbox.move(self._find(mailbox, message_id), target)

    def _find(self, mailbox: Any, message_id: str) -> list[int]:
        (uid,) = mailbox.search(["HEADER", "Message-ID", message_id])
        return [uid]


def _source_id(message_id: str) -> str:
    return f"mail:{hashlib.sha256(message_id.encode()).hexdigest()[:32]}"

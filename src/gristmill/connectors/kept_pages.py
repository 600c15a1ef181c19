"""HTML that was read together with its document, and may be downloaded a moment later, if the document turns out to be new.

Of unchanged documents it never is. So it stays in memory up to a limit: then the oldest pages leave, and whoever downloads one of
them reads it again.
"""

MAX_KEPT_BYTES = 32 << 20


class KeptPages:
    """Pages by key, at most `MAX_KEPT_BYTES` of them, or a single larger one."""

    def __init__(self) -> None:
        self._pages: dict[str, bytes] = {}  # oldest first
        self._size = 0

    def keep(self, key: str, html: bytes) -> None:
        """Keep a page until it is taken, or later ones need the room."""
        self.take(key)
        self._pages[key] = html
        self._size += len(html)
        while self._size > MAX_KEPT_BYTES and len(self._pages) > 1:
            self.take(next(iter(self._pages)))

    def take(self, key: str) -> bytes | None:
        """A page, which is no longer kept; None if it is not there."""
        html = self._pages.pop(key, None)
        self._size -= len(html or b"")
        return html

    def clear(self) -> None:
        """Keep none of them."""
        self._pages.clear()
        self._size = 0


def as_page(html: str) -> bytes:
    """A part of a page as a page, all of which is its main content."""
    return f"<html><body><article>{html}</article></body></html>".encode()

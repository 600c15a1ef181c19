"""Archives and compound files, without a child process."""

from pathlib import Path

import pytest

from gristmill.readers.formats import compound_writer
from gristmill.readers.formats.archive import ArchiveEntries
from gristmill.readers.libraries import olefile
from gristmill.readers.protocol import Channel, Message
from gristmill.readers.sink import DocumentRefused, ReadTask, Sink
from tests.readers import samples


class SilentChannel(Channel):
    """Drops every message."""

    def __init__(self) -> None:
        pass

    def send(self, message: Message) -> None:
        pass


def test_an_archive_that_contains_itself_is_refused(tmp_path: Path) -> None:
    path = samples.save(tmp_path, "a.zip", samples.zipped({"a": b"x"}))
    task = ReadTask(path, "a.zip", None, tmp_path, 0, 1, 1, 100, 10**6, 10**6, 100, 5, False, 0, {})
    listing = ArchiveEntries(Sink(SilentChannel(), task))
    listing.add("other", [b"something else of its own"])
    with pytest.raises(DocumentRefused) as caught:
        listing.add("a.zip", [path.read_bytes()])
    assert caught.value.code == "bomb"


def test_a_written_compound_file_can_be_read_back(tmp_path: Path) -> None:
    streams = {
        ("small",): b"s" * 100,
        ("large",): bytes(range(256)) * 300,
        ("folder", "inner"): b"i" * 4096,
        ("folder", "deep", "er"): b"",
        **{("many", f"stream {number}"): b"%d" % number for number in range(200)},
        ("huge",): b"h" * 9_000_000,  # more allocation tables than the header has room for
    }
    with olefile.OleFileIO(compound_writer.write(streams)) as ole:
        assert not ole.parsing_issues
        assert {tuple(entry) for entry in ole.listdir()} == set(streams)
        assert all(ole.openstream(list(path)).read() == data for path, data in streams.items())

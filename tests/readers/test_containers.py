"""Archives and compound files, without a child process."""

import resource
from pathlib import Path

import pytest

from gristmill.readers import sandbox
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


def test_reading_in_this_process_limits_nothing_of_it() -> None:
    """Limits are for the children that only read. A limit on CPU time would end this process some minutes later."""
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE)
    before = [resource.getrlimit(kind) for kind in kinds]
    try:
        sandbox.limit_cpu(1000)
        sandbox.limit_memory(1 << 40)
        sandbox.limit_file_size(1 << 40)
        assert [resource.getrlimit(kind) for kind in kinds] == before
    finally:
        for kind, limits in zip(kinds, before, strict=True):
            resource.setrlimit(kind, limits)

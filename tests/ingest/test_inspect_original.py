"""Inspecting and decoding plain text: encodings, digests, files that change while they are read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import NoText, Permanent, SourceGone, Transient, Unreadable, Unsupported, WorkError
from gristmill.ingest.inspect_original import PART, inspect_original
from gristmill.sources import FileSource, NoteSource, Original


def text(original: Original) -> str:
    """All text that is read."""
    return "".join(part.text for part, _ in inspect_original(original).parts())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_read_in_any_unicode_encoding(encoding: str) -> None:
    assert text(Original("知识库 and text\r\n".encode(encoding), "a.txt")) == "知识库 and text\n"


@pytest.mark.parametrize(
    ("data", "kind", "code"),
    [
        (b"\x7fELF\0\0\0\0", Unsupported, "unsupported_type"),
        ("Größe".encode("latin-1"), Unreadable, "unknown_encoding"),
        (b"a" * 9000 + b"\0", Permanent, "no_text"),
    ],
)
def test_a_file_without_text_is_rejected_by_name(data: bytes, kind: type[WorkError], code: str) -> None:
    with pytest.raises(kind, match=r"a\.bin") as caught:
        text(Original(data, "a.bin"))
    assert caught.value.code == code


async def test_an_empty_source_is_empty_and_a_blank_one_has_no_text() -> None:
    """C7."""
    assert text(await NoteSource("", "n").read()) == ""
    with pytest.raises(NoText):
        text(await NoteSource("  \n", "n").read())


def test_equal_bytes_have_equal_digests() -> None:
    same, other = inspect_original(Original(b"same", "a")), inspect_original(Original(b"other", "a"))
    assert same.digest == inspect_original(Original(b"same", "b")).digest
    assert same.digest != other.digest


@given(st.text(alphabet="知\r\n aé", max_size=300), st.integers(1, 9))
def test_text_does_not_depend_on_the_block_size(given_text: str, block: int) -> None:
    """Characters and line ends that cross a block boundary stay intact."""
    data = given_text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gristmill.ingest.inspect_original._BLOCK", block)
        patch.setattr("gristmill.ingest.inspect_original._SAMPLE", block)
        try:
            decoded = text(Original(data, "a.txt"))
        except NoText:
            decoded = given_text.replace("\r\n", "\n")
            assert not decoded.strip()
    assert decoded == given_text.replace("\r\n", "\n")


async def test_a_large_file_is_read_from_the_disk_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("rye\n" * 1_000_000)
    original = await FileSource(path, 1 << 30).read()
    assert (original.data, original.path) == (b"", path)
    parts = [part for part, _ in inspect_original(original).parts()]
    assert len(parts) > 10
    assert max(len(part.text) for part in parts) <= 4 * PART
    assert "".join(part.text for part in parts) == "rye\n" * 1_000_000


async def test_a_file_that_changes_while_it_is_read_is_read_again_later(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("rye\n" * 1_000_000)
    inspected = inspect_original(await FileSource(path, 1 << 30).read())
    with path.open("r+") as file:
        file.write("oat\n")
    with pytest.raises(Transient) as caught:
        list(inspected.parts())
    assert caught.value.code == "source_changed"


async def test_a_file_is_probed_before_it_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    with pytest.raises(SourceGone):
        await FileSource(path, 10).probe()
    path.write_text("12345")
    assert await FileSource(path, 10).probe() == 5
    path.write_text("12345678901")
    with pytest.raises(Permanent) as caught:
        await FileSource(path, 10).probe()
    assert caught.value.code == "document_too_large"
    with pytest.raises(Unreadable):
        await FileSource(tmp_path, 10).probe()

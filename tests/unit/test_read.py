from pathlib import Path

import pytest

from gristmill.errors import Gone, NoText, Permanent, Unreadable, Unsupported, WorkError
from gristmill.ingest.read import decode, read
from gristmill.sources import FileSource, NoteSource, Original


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_read_in_any_unicode_encoding(encoding: str) -> None:
    assert decode(Original("知识库 and text\r\n".encode(encoding), "a.txt")) == "知识库 and text\n"


@pytest.mark.parametrize(
    ("data", "kind", "code"),
    [
        (b"\x7fELF\0\0\0\0", Unsupported, "unsupported_type"),
        ("Größe".encode("latin-1"), Unreadable, "unknown_encoding"),
        (b"a" * 9000 + b"\0", Permanent, "no_text"),
    ],
)
def test_what_is_no_text_is_refused_by_name(data: bytes, kind: type[WorkError], code: str) -> None:
    with pytest.raises(kind, match=r"a\.bin") as caught:
        decode(Original(data, "a.bin"))
    assert caught.value.code == code


async def test_an_empty_source_is_empty_and_a_blank_one_has_no_text() -> None:
    """C7."""
    assert (await read(NoteSource("", "n"))).text == ""
    with pytest.raises(NoText):
        await read(NoteSource("  \n", "n"))


async def test_equal_bytes_have_equal_digests() -> None:
    assert (await read(NoteSource("same", "a"))).digest == (await read(NoteSource("same", "b"))).digest
    assert (await read(NoteSource("same", "a"))).digest != (await read(NoteSource("other", "a"))).digest


async def test_a_file_is_probed_before_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    with pytest.raises(Gone):
        await FileSource(path, 10).probe()
    path.write_text("12345")
    assert await FileSource(path, 10).probe() == 5
    path.write_text("12345678901")
    with pytest.raises(Permanent) as caught:
        await FileSource(path, 10).probe()
    assert caught.value.code == "document_too_large"
    with pytest.raises(Unreadable):
        await FileSource(tmp_path, 10).probe()

"""The pieces that readers are made of, each by itself."""

from pathlib import Path

import pytest

from gristmill.readers.formats import compound_writer
from gristmill.readers.formats.archive import ArchiveEntries
from gristmill.readers.language import guess
from gristmill.readers.libraries import olefile
from gristmill.readers.protocol import Channel, Message
from gristmill.readers.sink import DocumentRefused, ReadTask, Sink
from gristmill.readers.text_encoding import detect_encoding
from gristmill.readers.text_format import looks_like_text
from tests.readers import samples
from tests.readers.texts import TEXTS


@pytest.mark.parametrize(
    ("language", "encoding"),
    [
        *(
            (language, encoding)
            for language in ("zh", "ja", "ar", "de")
            for encoding in ("utf-8", "utf-8-sig", "utf-16")
        ),
        *(
            (language, encoding)
            for language in ("zh", "ja", "ar", "de")
            for encoding in ("utf-16-le", "utf-16-be", "utf-32")
        ),
        *(("zh", encoding) for encoding in ("gb18030", "gb2312", "utf-32-le")),
        *(("ja", encoding) for encoding in ("shift_jis", "euc_jp", "iso2022_jp")),
        *(("ru", encoding) for encoding in ("cp1251", "koi8_r", "iso8859_5", "utf-16-be")),
        ("zh-hant", "big5"),
        ("ko", "euc_kr"),
        ("ar", "cp1256"),
        ("de", "cp1252"),
        ("de", "utf-32-be"),
        ("de", "cp437"),
        ("de", "mac_roman"),
        ("he", "cp1255"),
        ("pl", "cp1250"),
        ("tr", "cp1254"),
    ],
)
def test_text_comes_out_right_in_the_encodings_of_the_world(language: str, encoding: str) -> None:
    for text in (TEXTS[language], (TEXTS[language] + "\n") * 50):
        data = text.encode(encoding)
        assert looks_like_text(data)
        assert data.decode(detect_encoding(data)[0]) == text


def test_japanese_bytes_are_not_taken_for_rare_korean_ones() -> None:
    text = "粉屋は毎日穀物を挽き、パン屋は川のそばの町の市場で小麦粉を買います。今日は天気がとても良いです。"
    assert detect_encoding(text.encode("shift_jis"))[0] == "cp932"


def test_a_language_is_told_by_its_script_or_its_common_words() -> None:
    for language in ("zh", "ja", "ko", "ru", "ar", "de"):
        assert guess(TEXTS[language] * 3) == language
    assert guess("The quick brown fox is in the house that was built by the man, and it is for sale") == "en"
    assert guess("x = 1; y = 2") is None


class Silent(Channel):
    def __init__(self) -> None:
        pass

    def send(self, message: Message) -> None:
        pass


def test_an_archive_that_holds_itself_is_refused(tmp_path: Path) -> None:
    path = samples.save(tmp_path, "a.zip", samples.zipped({"a": b"x"}))
    task = ReadTask(path, "a.zip", None, tmp_path, 0, 1, 1, 100, 10**6, 10**6, 100, 5, False, 0)
    listing = ArchiveEntries(Sink(Silent(), task))
    listing.add("other", [b"something else of its own"])
    with pytest.raises(DocumentRefused) as caught:
        listing.add("a.zip", [path.read_bytes()])
    assert caught.value.code == "bomb"


def test_a_written_compound_file_is_read_back_whole(tmp_path: Path) -> None:
    streams = {
        ("small",): b"s" * 100,
        ("large",): bytes(range(256)) * 300,
        ("folder", "inner"): b"i" * 4096,
        ("folder", "deep", "er"): b"",
        **{("many", f"stream {number}"): b"%d" % number for number in range(200)},
        ("huge",): b"h" * 9_000_000,  # more tables than the head has room for
    }
    with olefile.OleFileIO(compound_writer.write(streams)) as ole:
        assert not ole.parsing_issues
        assert {tuple(entry) for entry in ole.listdir()} == set(streams)
        assert all(ole.openstream(list(path)).read() == data for path, data in streams.items())

"""The guess of a text's encoding."""

import pytest

from gristmill.readers.text_encoding import detect_encoding
from gristmill.readers.text_format import looks_like_text
from tests.readers.sentences import SENTENCES


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
def test_text_in_common_encodings_is_decoded(language: str, encoding: str) -> None:
    for text in (SENTENCES[language], (SENTENCES[language] + "\n") * 50):
        data = text.encode(encoding)
        assert looks_like_text(data)
        assert data.decode(detect_encoding(data)[0]) == text


def test_japanese_text_is_not_taken_for_korean() -> None:
    text = "粉屋は毎日穀物を挽き、パン屋は川のそばの町の市場で小麦粉を買います。今日は天気がとても良いです。"
    assert detect_encoding(text.encode("shift_jis"))[0] == "cp932"

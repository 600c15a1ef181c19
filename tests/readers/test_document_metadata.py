"""What documents say of themselves: dates, languages, lists of names, front matter and the heads of pages. Pure."""

from datetime import UTC, date, datetime

import pytest

from gristmill.readers.document_metadata import (
    DocumentMetadata,
    iso_date,
    language_code,
    split_keywords,
    split_names,
)
from gristmill.readers.front_matter import front_matter
from gristmill.readers.html_metadata import html_metadata
from gristmill.readers.xml_metadata import xml_metadata


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2024", "2024"),
        ("2024-3", "2024-03"),
        ("2024-03-01", "2024-03-01"),
        ("2024-03-01T12:30:00.5+02:00", "2024-03-01T10:30:00Z"),
        ("2024-03-01 12:30", "2024-03-01T12:30:00"),
        ("2024:03:01 12:30:11", "2024-03-01T12:30:11"),
        ("D:20240301123011+01'00'", "2024-03-01T11:30:11Z"),
        ("D:202403", "2024-03"),
        ("Fri, 01 Mar 2024 12:00:00 -0500", "2024-03-01T17:00:00Z"),
        (date(1813, 1, 28), "1813-01-28"),
        (datetime(2024, 3, 1, 12, tzinfo=UTC), "2024-03-01T12:00:00Z"),
        ("1601-01-01T00:00:00Z", ""),
        ("2024-02-31", ""),
        ("0000-00-00", ""),
        ("yesterday", ""),
        ("9" * 1000, ""),
        (None, ""),
    ],
)
def test_dates_of_every_format_become_iso_dates(given: str | date | None, expected: str) -> None:
    assert iso_date(given) == expected


def test_languages_lose_their_region_and_what_is_none_is_left_out() -> None:
    given = ["en-US", "zh_Hant_TW", "de_DE.UTF-8", "PT", "und", "English", "x", ""]
    assert list(map(language_code, given)) == ["en", "zh", "de", "pt", "", "", "", ""]


def test_a_comma_separates_keywords_but_not_the_parts_of_a_name() -> None:
    assert split_keywords("rye, oats; 大麦、小麦") == ["rye", "oats", "大麦", "小麦"]
    assert split_names("Lovelace, Ada; Babbage, Charles") == ["Lovelace, Ada", "Babbage, Charles"]


def test_fields_are_cleaned_bounded_and_left_out_when_empty() -> None:
    metadata = DocumentMetadata(
        title="  A\n\0\u202e title ",
        authors=["Ada", " Ada ", "", "B" * 5_000],
        keywords=[f"k{number}" for number in range(500)],
        created="never",
    )
    fields = metadata.to_json()
    assert fields["title"] == "A title"
    assert fields["authors"] == ["Ada", "B" * 200]
    assert len(fields["keywords"]) == 100
    assert set(fields) == {"title", "authors", "keywords"}


def test_titles_that_programs_made_up_are_left_out() -> None:
    given = ["Microsoft Word - report.doc", "Untitled", "PowerPoint Presentation", "Titles of mills"]
    titles = [DocumentMetadata(title=title).to_json().get("title") for title in given]
    assert titles == ["report.doc", None, None, "Titles of mills"]


def test_front_matter_of_yaml_and_toml() -> None:
    text = (
        '---\ntitle: "Stones: a guide" # of the mill\nauthor: Ada Lovelace\ndate: 2024-03-01\nlang: de-AT\n'
        "tags: [rye, 'spelt flour']\nnested:\n  title: no\nkeywords:\n  - oats\n  - barley\n"
        "description: >\n  How to\n  dress them\n---\n# Stones\n"
    )
    assert front_matter(text).to_json() == {
        "title": "Stones: a guide",
        "authors": ["Ada Lovelace"],
        "created": "2024-03-01",
        "language": "de",
        "keywords": ["oats", "barley", "rye", "spelt flour"],
        "subject": "How to dress them",
    }
    toml = "+++\ntitle = 'Stones'\nauthors = ['Ada', 'Bob']\ndate = 2024-01-02T03:04:05Z\n+++\ntext"
    assert front_matter(toml).to_json() == {
        "title": "Stones",
        "authors": ["Ada", "Bob"],
        "created": "2024-01-02T03:04:05Z",
    }


@pytest.mark.parametrize(
    "text", ["", "---\n", "---\nno end: here\n", "+++\n[\n+++\n", "a\n---\ntitle: b\n---\n"]
)
def test_a_text_without_front_matter_says_nothing(text: str) -> None:
    assert front_matter(text).to_json() == {}


def test_a_page_speaks_by_meta_open_graph_and_json_ld() -> None:
    page = """<!doctype html><HTML lang=de-AT><head><title>Stones &amp; Mills | Site</title>
        <meta property='og:title' content="Stones &amp; Mills"><META NAME="keywords" CONTENT="rye, oats">
        <meta name=author content=https://example.org/ada><meta name="description" content="A guide">
        <script type="application/ld+json">{"@graph": [{"@type": "WebSite", "name": "Site"}, {"@type": ["NewsArticle"],
        "headline": "H", "author": [{"name": "Ada"}, "Bob"], "datePublished": "2024-01-02T03:04:05+01:00"}]}</script></head>"""
    assert html_metadata(page).to_json() == {
        "title": "Stones & Mills",
        "authors": ["Ada", "Bob"],
        "created": "2024-01-02T02:04:05Z",
        "language": "de",
        "keywords": ["rye", "oats"],
        "subject": "A guide",
    }


def test_a_page_made_to_cost_time_does_not() -> None:
    for piece in ("<meta ", "<script type=ld+json>", "<title>", '<meta content="', "<html lang='"):
        assert html_metadata(piece * 20_000).to_json() == {}


def test_dublin_core_of_office_opendocument_and_books() -> None:
    core = b"""<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t"><dc:title>Stones</dc:title>
        <dc:creator>Ada Lovelace; Bob</dc:creator><cp:keywords>rye, oats</cp:keywords><dc:subject>Mills</dc:subject>
        <dcterms:created>2024-03-01T10:00:00Z</dcterms:created><dcterms:modified>2024-04-01</dcterms:modified>
        <cp:lastModifiedBy>Eve</cp:lastModifiedBy></cp:coreProperties>"""
    assert xml_metadata(core).to_json() == {
        "title": "Stones",
        "authors": ["Ada Lovelace", "Bob"],
        "created": "2024-03-01T10:00:00Z",
        "modified": "2024-04-01",
        "keywords": ["rye", "oats"],
        "subject": "Mills",
    }
    meta = b"""<o:m xmlns:o="o" xmlns:meta="m" xmlns:dc="d"><dc:creator>Eve</dc:creator><dc:date>2024-04-01T00:00:00</dc:date>
        <meta:initial-creator>Ada</meta:initial-creator><meta:creation-date>2024-03-01</meta:creation-date>
        <dc:language>de-DE</dc:language><meta:keyword>rye</meta:keyword><meta:keyword>oats</meta:keyword></o:m>"""
    assert xml_metadata(meta).to_json() == {
        "authors": ["Ada"],
        "created": "2024-03-01",
        "modified": "2024-04-01T00:00:00",
        "language": "de",
        "keywords": ["rye", "oats"],
    }
    opf = b"""<package xmlns:dc="d"><metadata><dc:title>Emma</dc:title><dc:creator>Jane Austen</dc:creator>
        <dc:language>en</dc:language><dc:date>1815</dc:date><dc:subject>Fiction</dc:subject><dc:subject>England</dc:subject>
        <meta property="dcterms:modified">2020-01-01T00:00:00Z</meta></metadata>"""
    assert xml_metadata(opf, keywords=("subject",)).to_json() == {
        "title": "Emma",
        "authors": ["Jane Austen"],
        "created": "1815",
        "modified": "2020-01-01T00:00:00Z",
        "language": "en",
        "keywords": ["Fiction", "England"],
    }


def test_xml_made_to_do_harm_gives_nothing() -> None:
    bomb = (
        b'<!DOCTYPE a [<!ENTITY a "'
        + b"x" * 1000
        + b'">'
        + b"".join(
            b'<!ENTITY b%d "%s">' % (level, b"&a;" * 50 if not level else b"&b%d;" % (level - 1) * 50)
            for level in range(8)
        )
    )
    assert xml_metadata(bomb + b"]><a><title>&b7;</title></a>").to_json() == {}
    assert xml_metadata(b"<a>" * 100_000).to_json() == {}
    assert xml_metadata(b"no xml").to_json() == {}

"""The format of a text file is decided in one place, by its first bytes and its name."""

import pytest

from gristmill.readers.text_format import detect_format, plain_format

MEMO = b"From: Ann\nTo: Bob\nSubject: Flour\nDate: today\n\nWe need rye."
MAIL = b"Message-ID: <1@example.com>\r\nFrom: a@example.com\r\nSubject: Flour\r\n\r\nWe need rye."


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (b"just text", "notes", "text"),
        (b"# Title", "a.md", "markdown"),
        (b"all: build", "Makefile", "code"),
        (b"a,b\n1,2", "a.CSV", "csv"),
        (b"WEBVTT\n", "a.txt", "subtitles"),
        (MEMO, "memo.txt", "text"),
        (MAIL, "mail.txt", "eml"),
        (b"no headers", "a.eml", "eml"),
        (b"From here on, text", "a.txt", "text"),
        (b"From a@example.com Mon Jun 01 10:00:00 2026\n" + MAIL, "a.txt", "mbox"),
        (b"\n {\\rtf1 text}", "a.txt", "rtf"),
        (b"<!doctype html><p>text", "a.txt", "html"),
        (b"<?xml version='1.0'?><a/>", "a.txt", "xml"),
        (b'{"cells": []}', "a.ipynb", "ipynb"),
    ],
)
def test_the_format_of_a_text(head: bytes, name: str, kind: str) -> None:
    assert detect_format(head, name, None).kind == kind


def test_the_media_type_decides_when_the_name_says_nothing() -> None:
    assert detect_format(b"a,b", "download", "text/csv; charset=utf-8").kind == "csv"
    assert detect_format(b"a,b", "download.txt", "text/csv").kind == "text"


@pytest.mark.parametrize(
    "head", [MAIL, b"%PDF-1.7", b"PK\x03\x04", b"a\0b", "粉".encode("iso2022_jp"), b"<html>"]
)
def test_what_needs_a_reader_of_its_own_is_not_plain(head: bytes) -> None:
    assert plain_format(head, "a.txt", None) is None

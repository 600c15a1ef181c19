"""Whether a file is sound or video, by its first bytes. Pure."""

MEDIA_HEAD_BYTES = 16  # that `is_media` needs
_STARTS = (
    b"ID3",
    b"OggS",
    b"fLaC",
    b"#!AMR",
    b"caff",
    b"FLV\x01",
    b"\x1a\x45\xdf\xa3",  # webm, mkv
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",  # wma, wmv
    b"\0\0\x01\xba",  # mpg
    b"\0\0\x01\xb3",
)
_RIFF = (b"WAVE", b"AVI ")
_AIFF = (b"AIFF", b"AIFC")
# Brands of the container of MP4 that are images.
_IMAGE_BRANDS = (b"heic", b"heix", b"mif1", b"msf1", b"avif", b"avis", b"crx ")
_FRAME_SUFFIXES = frozenset(("mp3", "mp2", "mpga", "mpeg", "aac"))
MEDIA_SUFFIXES = (
    *(
        "mp3",
        "mp2",
        "mpga",
        "aac",
        "m4a",
        "m4b",
        "wav",
        "flac",
        "ogg",
        "oga",
        "opus",
        "amr",
        "aif",
        "aiff",
        "caf",
        "wma",
    ),
    *("mp4", "m4v", "mov", "3gp", "webm", "mkv", "avi", "mpg", "mpeg", "ogv", "wmv", "flv"),
)


def is_media(head: bytes, name: str) -> bool:
    """Whether the file that begins with `head` is sound or video. Frames of MP3 have no mark: there the name decides."""
    if head.startswith(_STARTS):
        return True
    if head[4:8] == b"ftyp":
        return head[8:12] not in _IMAGE_BRANDS
    if (head[:4] == b"RIFF" and head[8:12] in _RIFF) or (head[:4] == b"FORM" and head[8:12] in _AIFF):
        return True
    is_frame = (
        len(head) > 1
        and head[0] == 0xFF
        and head[1] & 0xE0 == 0xE0
        and head[:2] not in (b"\xff\xfe", b"\xff\xff")
    )
    return is_frame and name.rpartition(".")[2].lower() in _FRAME_SUFFIXES

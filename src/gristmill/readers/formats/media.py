"""Images and other media inside documents: images become assets, sound and video attachments."""

import mimetypes

from gristmill.readers.sink import Sink

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\xd7\xcd\xc6\x9a", "image/wmf"),
    (b"\x01\x00\x09\x00\x00\x03", "image/wmf"),
)


def media_type(name: str, data: bytes) -> str | None:
    """The media type of an image, by its first bytes; SVG also by its name. None for anything else."""
    for magic, image_type in _MAGIC:
        if data.startswith(magic):
            return image_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:4] == b"\1\0\0\0" and data[40:44] == b" EMF":
        return "image/emf"
    if name.lower().endswith(".svg") and b"<svg" in data[:2000]:
        return "image/svg+xml"
    return None


def is_image_name(name: str) -> bool:
    """Whether the file name is that of an image."""
    return (mimetypes.guess_type(name)[0] or "").startswith("image/")


def add_media(
    sink: Sink, name: str, data: bytes, *, start: int | None = None, page: int | None = None, text: str = ""
) -> None:
    """Hand over an image as an asset, anything else as an attachment, and the PDF that an image wraps."""
    if not data:
        return
    image_type = media_type(name, data)
    if image_type is None:
        sink.add_attachment(name, data, mimetypes.guess_type(name)[0])
        return
    sink.add_asset(data, image_type, page=page, start=start, text=text)
    # Office for Mac stores an inserted PDF inside the picture that shows it.
    if (
        image_type == "image/emf"
        and (begin := data.find(b"%PDF-")) > 0
        and (end := data.rfind(b"%%EOF")) > begin
    ):
        sink.add_attachment(name.rpartition(".")[0] + ".pdf", data[begin : end + 6], "application/pdf")

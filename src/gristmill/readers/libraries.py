"""The native libraries that readers use, each imported at its first use.

The parent imports modules that name them and never uses them; a child that reads only PDFs never loads OCR. They are
`Any` because they bring no types, or types that say nothing.
"""

import importlib
from typing import Any


class _LazyModule:
    """A placeholder for a module, which imports it when one of its attributes is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)  # the next access no longer comes here
        return value


olefile: Any = _LazyModule("olefile")
pdfium: Any = _LazyModule("pypdfium2")
pdfium_c: Any = _LazyModule("pypdfium2.raw")
kreuzberg: Any = _LazyModule("kreuzberg")
rapidocr: Any = _LazyModule("rapidocr")
cv2: Any = _LazyModule("cv2")
images: Any = _LazyModule("PIL.Image")
image_operations: Any = _LazyModule("PIL.ImageOps")
etree: Any = _LazyModule("lxml.etree")
charset_normalizer: Any = _LazyModule("charset_normalizer")
pypff: Any = _LazyModule("pypff")
zstandard: Any = _LazyModule("zstandard")
numpy: Any = _LazyModule("numpy")

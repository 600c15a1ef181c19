"""Libraries that bring no types, or types that say nothing: loaded when they are first used."""

import importlib
from typing import Any


class _LazyModule:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)  # found at once from now on
        return value


olefile: Any = _LazyModule("olefile")
pdfium: Any = _LazyModule("pypdfium2")
pdfium_c: Any = _LazyModule("pypdfium2.raw")
kreuzberg: Any = _LazyModule("kreuzberg")
rapidocr: Any = _LazyModule("rapidocr")
images: Any = _LazyModule("PIL.Image")
etree: Any = _LazyModule("lxml.etree")
html: Any = _LazyModule("lxml.html")
charset_normalizer: Any = _LazyModule("charset_normalizer")
numpy: Any = _LazyModule("numpy")

"""Libraries that bring no types, or types that say nothing: loaded when they are first used."""

import importlib
from typing import Any


class _Lazy:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)  # found at once from now on
        return value


olefile: Any = _Lazy("olefile")
pdfium: Any = _Lazy("pypdfium2")
pdfium_c: Any = _Lazy("pypdfium2.raw")
kreuzberg: Any = _Lazy("kreuzberg")
rapidocr: Any = _Lazy("rapidocr")
images: Any = _Lazy("PIL.Image")
etree: Any = _Lazy("lxml.etree")
html: Any = _Lazy("lxml.html")
charset: Any = _Lazy("charset_normalizer")
numpy: Any = _Lazy("numpy")

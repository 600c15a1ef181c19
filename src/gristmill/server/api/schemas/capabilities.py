"""What this installation can do."""

from typing import Self

from gristmill.embedding.language_codes import LANGUAGES
from gristmill.readers.format_families import FAMILIES, RECORDINGS, FamilyName, FormatFamily
from gristmill.server.api.schemas.common import ApiModel
from gristmill.settings import Settings

_MIB = 2**20


class FormatFamilyOut(ApiModel):
    """Formats of one family, by the usual endings of their names."""

    family: FamilyName
    extensions: list[str]

    @classmethod
    def of(cls, family: FormatFamily) -> Self:
        """Show `family`."""
        return cls(family=family.name, extensions=list(family.suffixes))


class LimitsOut(ApiModel):
    """The largest document that is read, the largest upload, and the largest other request."""

    document_bytes: int
    upload_bytes: int
    request_bytes: int


class LanguageOut(ApiModel):
    """A language that the documents of a base can be in; embedders list their languages by these names."""

    code: str
    name: str


class CapabilitiesOut(ApiModel):
    """What can be read, how large it may be, and what is configured. `chatModel` is null if questions can't be answered."""

    version: str
    chat_model: str | None
    formats: list[FormatFamilyOut]
    limits: LimitsOut
    languages: list[LanguageOut]

    @classmethod
    def of(cls, settings: Settings, version: str, *, can_ask: bool) -> Self:
        """Show what these settings allow."""
        families = (*FAMILIES, *([RECORDINGS] if settings.transcription_url else []))
        return cls(
            version=version,
            chat_model=(settings.chat_model or "") if can_ask else None,
            formats=[FormatFamilyOut.of(family) for family in families],
            limits=LimitsOut(
                document_bytes=settings.max_document_mb * _MIB,
                upload_bytes=settings.max_upload_mb * _MIB,
                request_bytes=settings.max_request_mb * _MIB,
            ),
            languages=[
                LanguageOut(code=code, name=name)
                for code, name in LANGUAGES.items()
                if code != "nb"  # the same language as `no`
            ],
        )

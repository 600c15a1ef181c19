"""The kinds of durable work that export and import bases; `work.py` has the table of all kinds."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from gristmill.catalog import BaseId
from gristmill.files import FileId
from gristmill.identity import OrgId
from gristmill.jobs import Work

# What becomes of the access lists of an archive: they stay as they are, or only admins see everything.
AccessLists = Literal["keep", "admins"]


@dataclass(frozen=True)
class ExportBase(Work):
    """Write an archive of a base, as a file that expires."""

    kind = "export_base"
    attempts = 3

    base_id: BaseId

    def key(self) -> str:
        """One per base at a time."""
        return f"knowledge:{self.base_id}:export"

    def subject(self) -> UUID:
        """The base."""
        return self.base_id


@dataclass(frozen=True)
class ImportBase(Work):
    """Create a base from an archive, which is a file."""

    kind = "import_base"
    attempts = 3

    org_id: OrgId
    file_id: FileId
    name: str | None = None
    re_embed: bool = False
    embedder: str | None = None
    access: AccessLists = "keep"

    def key(self) -> str:
        """One per file."""
        return f"file:{self.file_id}:import"

    @staticmethod
    def lane(org_id: OrgId) -> str:
        """The lane of the imports of an organisation."""
        return f"import:{org_id}"

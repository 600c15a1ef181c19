"""Items of a request as entries to add; those that can't be added are reported, each by itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gristmill import validation
from gristmill.errors import FieldError, GristmillError, Invalid, PathNotAllowed
from gristmill.operations import add
from gristmill.operations.source_factory import SourceFactory
from gristmill.server.api.schemas.new_items import AnyItem, MalformedItem, NewDirectory, NewFile
from gristmill.sources.disk import DiskAccess


def entries_of(
    items: Sequence[AnyItem | MalformedItem], sources: SourceFactory, access: DiskAccess
) -> list[add.ItemToAdd | add.InvalidEntry]:
    """The items as entries to add. Blocks, because paths are looked up on the disk."""
    entries: list[add.ItemToAdd | add.InvalidEntry] = []
    for item in items:
        if isinstance(item, MalformedItem):
            entries.append(add.InvalidEntry(item.path, item.to_error()))
            continue
        try:
            entry = item.to_entry(sources, access)
            if isinstance(item, NewFile | NewDirectory):
                access.check(Path(entry.item.key))
            entries.append(entry)
        except (Invalid, PathNotAllowed) as error:
            entries.append(add.InvalidEntry(item.name, error))
    if entries and not any(isinstance(entry, add.ItemToAdd) for entry in entries):
        _refuse_all([entry.error for entry in entries if isinstance(entry, add.InvalidEntry)])
    return entries


def _refuse_all(errors: Sequence[GristmillError]) -> NoReturn:
    """Refuse a request without a single valid entry, with the fields of each."""
    first = errors[0]
    if not isinstance(first, Invalid) or not first.fields:
        raise first
    fields = [
        FieldError(f"items[{index}].{field.field}" if field.field else f"items[{index}]", field.message)
        for index, error in enumerate(errors)
        if isinstance(error, Invalid)
        for field in error.fields
    ]
    code = first.code if all(error.code == first.code for error in errors) else Invalid.code
    raise Invalid(validation.sentences(fields), code=code, fields=fields)

"""What is filed where, for whose eyes."""

from gristmill.catalog.base import Base, BaseId
from gristmill.catalog.item import CONTAINERS, Item, ItemId, NewItem
from gristmill.catalog.lifecycle import TERMINAL, BaseStatus, ItemStatus, phase, progress
from gristmill.catalog.store import (
    count_items,
    find_base,
    find_base_named,
    find_item,
    find_stuck,
    insert_base,
    insert_items,
    keep_content,
    list_bases,
    list_items,
    live_content,
    lock_base,
    note_text,
    publish,
    set_failed,
    set_stage,
)

__all__ = [
    "CONTAINERS",
    "TERMINAL",
    "Base",
    "BaseId",
    "BaseStatus",
    "Item",
    "ItemId",
    "ItemStatus",
    "NewItem",
    "count_items",
    "find_base",
    "find_base_named",
    "find_item",
    "find_stuck",
    "insert_base",
    "insert_items",
    "keep_content",
    "list_bases",
    "list_items",
    "live_content",
    "lock_base",
    "note_text",
    "phase",
    "progress",
    "publish",
    "set_failed",
    "set_stage",
]

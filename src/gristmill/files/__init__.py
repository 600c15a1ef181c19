"""Files with an id of their own, the items that are made from them, and batches of such items.

A file is a name for a blob. The items of any number of bases can be made from one file, each with its own metadata
(`item.file_id`). Every other document is a file too, under the id of its item, so that whatever was added to a base by other
means can be listed, read and deleted by the same ids.
"""

from gristmill.files.batches import (
    BatchId,
    FileBatch,
    active_batch_items,
    batch_counts,
    find_batch,
    insert_batch,
    mark_batch_cancelled,
)
from gristmill.files.documents import (
    FileStatus,
    StoreCount,
    StoreDocument,
    file_ids_of_items,
    find_document,
    page_bases,
    page_documents,
    store_counts,
)
from gristmill.files.paging import Place
from gristmill.files.stored_file import (
    FileId,
    FileItem,
    StoredFile,
    delete_file,
    find_expired_files,
    find_file,
    find_files,
    insert_file,
    items_of_file,
    list_files,
)

__all__ = [
    "BatchId",
    "FileBatch",
    "FileId",
    "FileItem",
    "FileStatus",
    "Place",
    "StoreCount",
    "StoreDocument",
    "StoredFile",
    "active_batch_items",
    "batch_counts",
    "delete_file",
    "file_ids_of_items",
    "find_batch",
    "find_document",
    "find_expired_files",
    "find_file",
    "find_files",
    "insert_batch",
    "insert_file",
    "items_of_file",
    "list_files",
    "mark_batch_cancelled",
    "page_bases",
    "page_documents",
    "store_counts",
]

"""A page of `delta` of a drive in Microsoft Graph: all items of the drive, or what changed since the page that ended with a token.

Folders are named whenever something in them changed, and a renamed, moved, shared or deleted folder is named without what lies below it.
What is new in the drive, or comes back from the recycle bin, is named item by item. An item can be named more than once: the last time counts. The headers ask Graph to name items whose sharing changed, and to mark them. It
does so completely only for applications with `Sites.FullControl.All`.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gristmill.connectors.access_tokens import SignedInTransport
from gristmill.connectors.drive_folders import DriveFolders, Folder
from gristmill.connectors.json_values import as_dict, as_list
from gristmill.connectors.markup import strip_unstorable
from gristmill.errors import SourceGone

ITEM_FIELDS = "id,name,file,folder,root,deleted,size,cTag,eTag,lastModifiedDateTime,webUrl,parentReference"
_FOLDER_FIELDS = "id,name,root,parentReference"
_PREFER = (
    "deltashowremovedasdeleted, deltatraversepermissiongaps, deltashowsharingchanges, hierarchicalsharing"
)
_SHARING_CHANGED = "@microsoft.graph.sharedChanged"
_PAGE_SIZE = 200

DriveItem = dict[str, Any]


@dataclass
class DeltaPage:
    """A page: files by id, ids of what is gone, and folders with their marks, None if their sharing changed. `next_link` leads on;
    at the end `delta_link` leads to later changes."""

    at: datetime
    next_link: str | None
    delta_link: str | None
    files: dict[str, DriveItem] = field(default_factory=dict[str, DriveItem])
    gone_ids: set[str] = field(default_factory=set[str])
    folders: dict[str, str | None] = field(default_factory=dict[str, str | None])
    has_root_changed: bool = False


class DriveItems:
    """The items of one drive."""

    def __init__(self, http: SignedInTransport, drive: str) -> None:
        self._http, self._drive = http, drive
        self.folders = DriveFolders(self._find_folder)

    async def read_page(self, link: str | None) -> DeltaPage:
        """The page that a link leads to; without one, the first page of all items."""
        path, params = link or f"/drives/{self._drive}/root/delta", None
        if link is None:
            params = {"$select": ITEM_FIELDS, "$top": _PAGE_SIZE}
        response = await self._http.get(path, params, Prefer=_PREFER)
        data = as_dict(response.data)
        page = DeltaPage(
            response.server_time,
            str(data.get("@odata.nextLink") or "") or None,
            str(data.get("@odata.deltaLink") or "") or None,
        )
        items = {str(item.get("id")): item for item in map(as_dict, as_list(data.get("value")))}
        for item_id, item in items.items():
            self._add(page, item_id, item)
        return page

    async def find(self, item_id: str) -> DriveItem:
        """One file as it is now; SourceGone if it is no longer there."""
        path = f"/drives/{self._drive}/items/{item_id}"
        item = as_dict((await self._http.get(path, {"$select": ITEM_FIELDS})).data)
        if "file" not in item or "deleted" in item:
            raise SourceGone("It is no longer a file.")
        return item

    def _add(self, page: DeltaPage, item_id: str, item: DriveItem) -> None:
        has_sharing_changed = str(item.get(_SHARING_CHANGED)).lower() == "true"
        if "deleted" in item:
            page.gone_ids.add(item_id)
            page.folders[item_id] = None
        elif "root" in item:
            self.folders.remember(item_id, None)
            page.has_root_changed |= has_sharing_changed
        elif "folder" in item:
            folder = _folder(item)
            self.folders.remember(item_id, folder)
            page.folders[item_id] = None if has_sharing_changed else folder.mark
        elif "file" in item:
            page.files[item_id] = item

    async def _find_folder(self, folder_id: str) -> Folder | None:
        path = f"/drives/{self._drive}/items/{folder_id}"
        try:
            item = as_dict((await self._http.get(path, {"$select": _FOLDER_FIELDS})).data)
        except SourceGone:
            return None
        return None if "root" in item else _folder(item)


def parent_of(item: DriveItem) -> str | None:
    """The id of the folder that an item is in."""
    return str(as_dict(item.get("parentReference")).get("id") or "") or None


def _folder(item: DriveItem) -> Folder:
    return Folder(strip_unstorable(str(item.get("name") or "")), parent_of(item))

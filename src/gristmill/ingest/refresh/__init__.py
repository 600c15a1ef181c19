"""Keep what is indexed equal to its sources: checks by schedule, and folders that are watched.

due.py          queue checks for bases with something due
documents.py    pages by conditional requests, files by their fingerprints
containers.py   folders, sitemaps and sites, compared with what is filed
folder_scan.py  a folder's tree on the disk, compared with the items
folder_changes.py   what differs, written in one transaction
watch.py        folders that the operating system reports changes of (`system_watch.py`, `inotify.py`, `recursive_watch.py`)
"""

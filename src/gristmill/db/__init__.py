"""PostgreSQL: the local server, connections, named queries, the schema and its migrations, notifications."""

from gristmill.db.announcer import announce_after
from gristmill.db.pool import Database, DatabaseUnavailable, run_before_commit, without_commit_hook
from gristmill.db.queries import Queries, Tx
from gristmill.db.reads import Reads

__all__ = [
    "Database",
    "DatabaseUnavailable",
    "Queries",
    "Reads",
    "Tx",
    "announce_after",
    "run_before_commit",
    "without_commit_hook",
]

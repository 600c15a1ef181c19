"""PostgreSQL: the embedded server, connections, named queries, migrations, notifications."""

from gristmill.db.pool import Database, DatabaseUnavailable, run_before_commit, without_commit_hook
from gristmill.db.queries import Queries, Tx

__all__ = ["Database", "DatabaseUnavailable", "Queries", "Tx", "run_before_commit", "without_commit_hook"]

"""PostgreSQL: the embedded server, connections, named queries, migrations, notifications."""

from gristmill.db.pool import Database, DatabaseUnavailable, without_commit_hook, run_before_commit
from gristmill.db.queries import Queries, Tx

__all__ = ["Database", "Queries", "Tx", "DatabaseUnavailable", "without_commit_hook", "run_before_commit"]

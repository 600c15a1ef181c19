"""PostgreSQL: the embedded server, connections, named queries, migrations, notifications."""

from gristmill.db.pool import Database, Unavailable, aside, sealed
from gristmill.db.queries import Queries, Tx

__all__ = ["Database", "Queries", "Tx", "Unavailable", "aside", "sealed"]

"""Writes `migrations/0001_baseline.sql` from `schema/` and `functions/`, without comments.

python -m tests.db.freeze_baseline      only before the first release: afterwards a change of the schema is a migration
"""

from pathlib import Path

import gristmill.db
from gristmill.db.migrate import schema_sql

_HEADER = """-- The schema of the first release, as existing databases have it. Frozen: read schema/ and functions/ instead.
"""


def main() -> None:
    """Write the file."""
    statements = [
        line for line in schema_sql().splitlines() if line.strip() and not line.lstrip().startswith("--")
    ]
    path = Path(gristmill.db.__file__).with_name("migrations") / "0001_baseline.sql"
    path.write_text(_HEADER + "\n".join(statements) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

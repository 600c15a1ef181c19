"""Writes the first migrations from `schema/` and `functions/`, one file each, without comments.

python -m tests.db.freeze_baseline      only before the first release: afterwards a change of the schema is a migration
"""

from pathlib import Path

import gristmill.db

_HEADER = "-- Part of the schema of the first release. Frozen: read schema/ and functions/ instead.\n"


def main() -> None:
    """Replace the files."""
    folder = Path(gristmill.db.__file__).parent
    (folder / "migrations").mkdir(exist_ok=True)
    for old in (folder / "migrations").glob("*_baseline_*.sql"):
        old.unlink()
    sources = [path for name in ("schema", "functions") for path in sorted((folder / name).glob("*.sql"))]
    for number, source in enumerate(sources, 1):
        lines = source.read_text(encoding="utf-8").splitlines()
        statements = [line for line in lines if line.strip() and not line.lstrip().startswith("--")]
        topic = f"{source.stem.split('_', 1)[1]}_{source.parent.name}".removesuffix("_schema")
        target = folder / "migrations" / f"{number:04}_baseline_{topic}.sql"
        target.write_text(_HEADER + "\n".join(statements) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

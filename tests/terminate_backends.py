"""Cutting a database's connections, as a restart of the server would."""

import psycopg


async def terminate_backends(url: str) -> None:
    """End every session on the database of `url` but the one that does it, and see them gone."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )

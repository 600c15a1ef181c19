"""A worker that is killed repeatedly while it indexes a folder: the index is the same, and little is embedded twice."""

import random
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gristmill.ingest.embed import MIN_BATCH, PARALLEL
from tests.crash.indexing_trial import IndexingTrial, differing_items, kill_schedule

FILES, SLOTS, KILLS, PAUSE = (
    24,
    32,
    6,
    0.02,
)  # all of them are under way at each kill, until they are suspects
BATCH = max(
    MIN_BATCH, 25
)  # the batches aim at half a second of the embedder, which takes 0.02 s for each text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of one to twenty-four chunks, all of different texts."""
    into = tmp_path / "folder"
    into.mkdir()
    for number in range(FILES):
        sections = [
            f"## Part {part}\n\n" + f"Sack {number} of part {part}. " * 30 for part in range(1 + number)
        ]
        (into / f"{number:02}.md").write_text(f"# File {number}\n\n" + "\n\n".join(sections))
    return into


async def test_a_worker_killed_at_random_moments_leaves_the_same_index_and_embeds_little_twice(
    folder: Path, database_url: str, tmp_path: Path, cache_dir: Path
) -> None:
    """S4-69, promises 1, 2 and 4: a kill costs the batches that are under way, and nothing else."""
    calm_url = make_conninfo(database_url, dbname=f"{conninfo_to_dict(database_url)['dbname']}_calm")
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = sql.Identifier(str(conninfo_to_dict(calm_url)["dbname"]))
        connection.execute(sql.SQL("create database {}").format(name))
        try:
            (tmp_path / "calm").mkdir()
            calm = await IndexingTrial(calm_url, folder, tmp_path / "calm", cache_dir, 0).run([])
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(name))
    assert calm.statuses == {"completed": FILES}
    assert calm.texts_embedded > 250

    dice = random.Random()
    trial = IndexingTrial(database_url, folder, tmp_path, cache_dir, PAUSE, slots=SLOTS)
    result = await trial.run(kill_schedule(dice, KILLS, calm.texts_embedded, 0.2))
    assert result.kills >= KILLS - 2  # the last kills may come when all work is done
    assert result.statuses == {"completed": FILES}
    assert result.violations == []
    assert differing_items(calm.index, result.index) == []
    assert result.texts_embedded - calm.texts_embedded <= KILLS * PARALLEL * BATCH

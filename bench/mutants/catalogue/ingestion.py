"""S3: versions, fences, events, and what is not done twice."""

from bench.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "vectors-are-not-reused",
        "ingest/pipeline.py",
        "            vectors = await publish.reusable_vectors(tx, [base.chunk_set], hashes)",
        "            vectors = dict[bytes, Vector]()",
        ("S3-03",),
    ),
    Mutant(
        "an-unchanged-source-is-indexed",
        "ingest/pipeline.py",
        "            if task.is_unchanged(content.digest):",
        "            if False:",
        ("S3-03", "S3-10"),
    ),
    Mutant(
        "a-new-recipe-is-no-change",
        "ingest/pipeline.py",
        "        if item.begun_content is None or (item.begun_content, item.begun_recipe) == (\n"
        "            content.digest,\n"
        "            task.recipe,\n"
        "        ):",
        "        if item.begun_content is None or item.begun_content == content.digest:",
        ("S3-04",),
    ),
    Mutant(
        "a-fence-without-the-lease",
        "jobs/queries.sql",
        "select id from job where id = %(id)s and lease = %(lease)s and state = 'running' for no key update;",
        "select id from job where id = %(id)s and %(lease)s::uuid is not null for no key update;",
        ("S3-05",),
    ),
    Mutant(
        "a-batch-without-its-lease",
        "jobs/queries.sql",
        "u(id, lease) on j.id = u.id and j.lease = u.lease\n where j.state",
        "u(id, lease) on j.id = u.id\n where j.state",
        ("S3-05",),
    ),
    Mutant(
        "a-zombie-completes",
        "db/functions/4_jobs.sql",
        "         where j.id = d.id and j.lease = d.lease and j.state = 'running'",
        "         where j.id = d.id",
        ("S3-05",),
    ),
    Mutant(
        "an-old-version-is-published",
        "catalog/transitions.sql",
        " where i.id = d.id and i.wanted_version = d.version and i.status <> 'deleting'",
        " where i.id = d.id",
        ("S3-05", "S0-39", "S0-11"),
    ),
    Mutant(
        "every-fifteen-minutes",
        "settings/model.py",
        'default="*/5 * * * *"',
        'default="*/15 * * * *"',
        ("S3-12",),
    ),
    Mutant(
        "stuck-items-stay",
        "integrity/reconcile.py",
        "    if stuck:\n",
        "    if False:\n",
        ("S3-06", "S3-12"),
    ),
    Mutant(
        "no-event-of-an-upload",
        "operations/next_job.py",
        "    await events.record(tx, *map(_event_for, items))",
        "    await events.record(tx, *map(_event_for, items[:0]))",
        ("S3-14",),
    ),
    Mutant(
        "no-event-of-content",
        "ingest/write.py",
        "            [_extraction_event(state.task, state.characters) for state in states],",
        "            [],",
        ("S3-16",),
    ),
    Mutant(
        "ready-while-a-folder-is-listed",
        "db/functions/3_bases.sql",
        "    if exists (select from item i where i.base_id = p_base and i.is_active) or",
        "    if",
        ("S3-21",),
    ),
    Mutant(
        "ready-before-images-are-described",
        "db/functions/3_bases.sql",
        " or base_has_waiting_images(p_base) then",
        " then",
        ("S3-21",),
    ),
    Mutant(
        "images-are-not-analysed",
        "ingest/write_state.py",
        "    return any(image.text is None for image in state.ended.images)",
        "    return False",
        ("S3-07", "S3-19"),
    ),
    Mutant(
        "the-last-two-documents-do-not-see-each-other",
        "db/functions/3_bases.sql",
        "order by i.id desc limit 1 for no key update skip locked;",
        "order by i.id desc limit 1;",
        ("S3-21",),
    ),
)

"""Another embedder takes over in a base while it answers: building, comparing, switching and going back."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from gristmill import catalog, faults
from gristmill.catalog import Viewer
from gristmill.db import Database
from gristmill.embedding.embedder import EmbedderPaused, TextRefused
from gristmill.errors import Conflict, NotFound
from gristmill.operations import bases, delete, swap_embedder
from gristmill.settings import Settings
from tests.embedding.probes import without_probes
from tests.ingest.swap_setup import NOTES, WORDS, SwapSetup, text_of
from tests.operations.manual_worker import note_to_add


@pytest.fixture
async def setup(db: Database, settings: Settings) -> SwapSetup:
    """A base of twelve notes with the embedder `hashed`."""
    return await SwapSetup.start(db, settings)


async def test_another_embedder_takes_over_in_one_step_and_each_text_is_paid_once(setup: SwapSetup) -> None:
    """The old vectors answer until the new ones are complete; from then on every hit is of the new ones."""
    before = await setup.search("rye flour")
    begun = await setup.swap()
    assert (begun.state, begun.items) == ("building", NOTES)
    assert (await setup.swap()).id == begun.id, "the same request again is the same swap"
    assert [hit.chunk_id for hit in await setup.search("rye flour")] == [hit.chunk_id for hit in before]
    await setup.work()
    swap, base = await setup.last(), await setup.current()
    assert swap.state == "switched", swap
    assert (base.embedder, base.dimensions, base.chunk_set) == ("other", 96, begun.set_id)
    assert await setup.sets_of(await setup.search("rye flour")) == {begun.set_id}
    assert len(setup.paid) == len(set(setup.paid)) == swap.embedded
    types = await setup.worker.rows("select type from outbox where type like 'BaseEmbedder%%'")
    assert types == [("BaseEmbedderSwitched",)]
    assert (await setup.swap()).id == begun.id, "it has ended, and the base is as requested"
    await setup.assert_healthy()


async def test_one_call_goes_back_at_once_and_forth_again(setup: SwapSetup) -> None:
    """The old vectors are kept, and so are the new ones then; nothing is embedded again."""
    await setup.swap()
    await setup.work()
    paid = {name: len(setup.embedders[name].texts) for name in ("hashed", "other")}
    reverted = await swap_embedder.revert(setup.db, setup.base.id, setup.registry)
    assert (reverted.state, reverted.is_revert) == ("switched", True)
    base = await setup.current()
    assert (base.embedder, base.chunk_set) == ("hashed", setup.base.chunk_set)
    await setup.work()
    await setup.assert_healthy()
    again = await swap_embedder.revert(setup.db, setup.base.id, setup.registry)
    assert (again.state, (await setup.current()).embedder) == ("switched", "other")
    await setup.work()
    await setup.assert_healthy()
    assert {name: len(setup.embedders[name].texts) for name in ("hashed", "other")} == paid


async def test_what_changed_since_the_switch_is_built_before_the_way_back(setup: SwapSetup) -> None:
    """New documents and a deletion."""
    await setup.swap()
    await setup.work()
    await setup.worker.add(setup.base, note_to_add("late", text_of(33)))
    gone = await setup.worker.value("select id from item where title = 'note-3'")
    await delete.delete(setup.db, setup.base.id, [gone])
    await setup.work()
    before = len(without_probes(setup.embedders["hashed"].texts))
    reverted = await swap_embedder.revert(setup.db, setup.base.id, setup.registry)
    assert (reverted.state, reverted.items) == ("building", 1)
    assert (await setup.current()).embedder == "other"
    await setup.work()
    assert (await setup.current()).embedder == "hashed"
    titles = {hit.title for hit in await setup.search(" ".join(WORDS))}
    assert "late" in titles
    assert "note-3" not in titles
    assert len(without_probes(setup.embedders["hashed"].texts)) == before + 1
    await setup.assert_healthy()


async def test_documents_that_change_meanwhile_are_in_the_new_set(setup: SwapSetup) -> None:
    """A new one, a changed one and a deleted one, while both are compared."""
    await setup.swap()
    job = await setup.worker.take("swap_embedder")
    with faults.watch("swap.comparing", hold=True) as comparing:
        running = asyncio.create_task(setup.worker.run(job))
        await comparing.passed.wait()
        await setup.worker.add(setup.base, note_to_add("new", text_of(40)))
        changed = await setup.worker.value("select id from item where title = 'note-5'")
        await setup.worker.rows("update item set body = %s where id = %s returning id", text_of(41), changed)
        await setup.worker.reindex(setup.base, changed)
        gone = await setup.worker.value("select id from item where title = 'note-3'")
        await delete.delete(setup.db, setup.base.id, [gone])
        await setup.work()
        comparing.hold.set()
        await running
    await setup.work()
    assert (await setup.last()).state == "switched"
    hits = await setup.search(" ".join(WORDS))
    titles = {hit.title for hit in hits}
    assert "new" in titles
    assert "note-3" not in titles
    assert any("number41" in hit.text for hit in hits if hit.title == "note-5")
    assert await setup.sets_of(hits) == {(await setup.current()).chunk_set}
    await setup.assert_healthy()


async def test_a_document_that_is_being_indexed_is_never_published_in_the_wrong_set(setup: SwapSetup) -> None:
    """It was embedded with the old embedder; the switch comes before it is written."""
    await setup.swap(gate="off")
    await setup.worker.add(setup.base, note_to_add("slow", text_of(50)))
    claimed = {job.kind: job for job in await setup.worker.claim(16)}
    with faults.watch("index.embedded", hold=True) as embedded:
        indexing = asyncio.create_task(setup.worker.run(claimed["index_document"]))
        await embedded.passed.wait()
        await setup.worker.run(claimed["swap_embedder"])
        assert (await setup.current()).embedder == "other"
        embedded.hold.set()
        await indexing
    await setup.work()
    assert await setup.worker.value("select status from item where title = 'slow'") == "completed"
    assert await setup.worker.value("select max(attempt) from job_history where kind = 'index_document'") == 1
    await setup.assert_healthy()


async def test_documents_wait_for_a_switch_that_is_about_to_come(setup: SwapSetup) -> None:
    """Else a base that publishes all the time would never be switched. What waits is not embedded, and costs no attempt."""
    await setup.swap(gate="off")
    job = await setup.worker.take("swap_embedder")
    with faults.watch("swap.built", hold=True) as built:
        running = asyncio.create_task(setup.worker.run(job))
        await built.passed.wait()
        await setup.worker.add(setup.base, note_to_add("between", text_of(60)))
        await setup.work()  # published after the builder has found nothing missing
        with faults.watch("swap.held", hold=True) as held:
            built.hold.set()
            await held.passed.wait()
            held.hold.set()
            with faults.watch("swap.before_call", hold=True) as building:
                await building.passed.wait()
                await setup.worker.add(setup.base, note_to_add("waits", text_of(61)))
                before = len(without_probes(setup.embedders["hashed"].texts))
                await setup.worker.work()
                assert (
                    await setup.worker.value("select status from item where title = 'waits'") == "processing"
                )
                assert len(setup.embedders["hashed"].texts) == before
                building.hold.set()
                await running
    assert (await setup.current()).embedder == "other"
    await setup.work()
    assert len(setup.embedders["hashed"].texts) == before, "it was embedded with the new embedder alone"
    await setup.assert_healthy()


async def test_a_new_chunking_takes_the_same_way(setup: SwapSetup) -> None:
    """With the same embedder; the counts of the items follow."""
    before = await setup.worker.value("select sum(chunk_count) from item")
    swap = await swap_embedder.swap(
        setup.db, setup.base.id, setup.embedders["hashed"], {"maxTokens": 32}, "off"
    )
    await setup.work()
    assert (await setup.last()).state == "switched"
    base = await setup.current()
    assert (base.chunking, base.chunk_set) == ({"maxTokens": 32}, swap.set_id)
    assert await setup.worker.value("select sum(chunk_count) from item") > before
    await setup.assert_healthy()
    item = await setup.worker.value("select id from item where title = 'note-5'")
    calls = len(setup.embedders["hashed"].calls)
    await setup.worker.reindex(setup.base, item)
    await setup.work()
    assert len(setup.embedders["hashed"].calls) == calls, "its recipe is known: nothing has changed"


async def test_random_vectors_are_refused_and_a_better_model_is_accepted(
    db: Database, settings: Settings
) -> None:
    """The gate: from a good model to random vectors, and from random vectors to a good model."""
    setup = await SwapSetup.start(db, settings)
    await setup.swap("bad")
    await setup.work()
    refused = await setup.last()
    assert refused.state == "refused"
    assert refused.report is not None
    assert refused.report["verdict"] == "no_better_than_chance"
    assert (await setup.current()).embedder == "hashed"
    await setup.assert_healthy()
    await swap_embedder.approve(
        setup.db, setup.base.id
    )  # the owner wants it nevertheless: nothing is embedded again
    await setup.work()
    assert (await setup.current()).embedder == "bad"
    await setup.swap("other")
    await setup.work()
    accepted = await setup.last()
    assert accepted.report is not None
    assert (accepted.state, accepted.report["verdict"]) == ("switched", "better")
    assert accepted.report["new"]["vector"]["ndcg"] > accepted.report["old"]["vector"]["ndcg"] + 0.1
    await setup.assert_healthy()


async def test_the_owner_decides_if_asked(setup: SwapSetup) -> None:
    """`ask`: it waits with its report, and takes over after the approval, with what was published since."""
    await setup.swap(gate="ask")
    await setup.work()
    waiting = await setup.last()
    assert (waiting.state, (await setup.current()).embedder) == ("waiting", "hashed")
    assert waiting.report is not None
    assert waiting.report["questions"] >= 8
    await setup.worker.add(setup.base, note_to_add("late", text_of(33)))
    await setup.work()
    await swap_embedder.approve(setup.db, setup.base.id)
    await setup.work()
    assert (await setup.current()).embedder == "other"
    assert "late" in {hit.title for hit in await setup.search(" ".join(WORDS))}
    await setup.assert_healthy()


@pytest.mark.parametrize("point", ["swap.embedded", "swap.built", "swap.comparing"])
async def test_a_cancelled_swap_leaves_nothing(setup: SwapSetup, point: str) -> None:
    """Whatever the job is doing: the base stays as it is, and the new chunks are removed."""
    await setup.swap()
    job = await setup.worker.take("swap_embedder")
    with faults.watch(point, hold=True) as reached:
        running = asyncio.create_task(setup.worker.run(job))
        await reached.passed.wait()
        await swap_embedder.cancel(setup.db, setup.base.id)
        reached.hold.set()
        await running
    await setup.work()
    assert (await setup.last()).state == "cancelled"
    assert await setup.worker.value("select count(distinct set_id) from chunk") == 1
    assert await setup.worker.value("select count(*) from chunk_set") == 1
    await setup.assert_healthy()
    with pytest.raises(Conflict) as nothing:
        await swap_embedder.revert(setup.db, setup.base.id, setup.registry)
    assert nothing.value.code == "nothing_to_revert"


async def test_a_second_swap_is_refused_while_one_is_under_way(setup: SwapSetup) -> None:
    """And one to what the base has already; a base that was never swapped has none."""
    with pytest.raises(NotFound) as none:
        await swap_embedder.approve(setup.db, setup.base.id)
    assert none.value.code == "swap_not_found"
    with pytest.raises(Conflict) as unchanged:
        await setup.swap("hashed")
    assert unchanged.value.code == "swap_unchanged"
    await setup.swap()
    with pytest.raises(Conflict) as under_way:
        await setup.swap("bad")
    assert under_way.value.code == "swap_under_way"
    with pytest.raises(Conflict) as early:
        await swap_embedder.approve(setup.db, setup.base.id)
    assert early.value.code == "swap_not_waiting"
    await setup.work()
    with pytest.raises(Conflict) as ended:
        await swap_embedder.cancel(setup.db, setup.base.id)
    assert ended.value.code == "swap_ended"


async def test_an_empty_base_is_switched_at_once(setup: SwapSetup) -> None:
    """There is nothing to compare."""
    empty = await setup.worker.base("empty")
    await swap_embedder.swap(setup.db, empty.id, setup.embedders["bad"])
    await setup.work()
    async with setup.db.connection() as tx:
        base = await catalog.find_base(tx, empty.id)
    assert base is not None
    assert base.embedder == "bad"


async def test_a_deleted_base_takes_all_its_sets_with_it(setup: SwapSetup) -> None:
    """In the middle of a swap, with a kept set besides."""
    await setup.swap()
    await setup.work()
    await setup.swap("bad", gate="ask")
    await setup.work()
    assert await setup.worker.value("select count(*) from chunk_set") == 3
    await bases.delete(setup.db, setup.base.id)
    await setup.work()
    assert (
        await setup.worker.remaining_rows() == {"contents": NOTES} or not await setup.worker.remaining_rows()
    )
    assert await setup.worker.value("select count(*) from chunk_set") == 0
    assert await setup.worker.reconcile() == {}


async def test_access_lists_apply_in_the_new_set(setup: SwapSetup) -> None:
    """Promise 7: they are on the items, which both sets share."""
    hidden = await setup.worker.value("select id from item where title = 'note-3'")
    await setup.worker.rows("update base set acl = '{team:1}' returning id")
    await setup.worker.rows("select item_set_acl(%s, '{team:2}')", hidden)
    await setup.swap(gate="off")
    await setup.work()
    viewer = Viewer(frozenset({"team:1"}))
    titles = {hit.title for hit in await setup.search(" ".join(WORDS), viewer=viewer)}
    assert len(titles) == NOTES - 1
    assert "note-3" not in titles


async def test_an_embedder_that_is_down_is_waited_for_and_one_that_refuses_a_text_ends_the_swap(
    setup: SwapSetup,
) -> None:
    """Neither changes the base."""

    def pause(_: Sequence[str]) -> None:
        raise EmbedderPaused("busy", pause=timedelta(seconds=1))

    other = setup.embedders["other"]
    other.before = pause
    await setup.swap()
    await setup.worker.work()
    assert await setup.worker.rows("select state, attempt from job where kind = 'swap_embedder'") == [
        ("delayed", 0)
    ]

    def refuse(_: Sequence[str]) -> None:
        raise TextRefused("not this one")

    other.before = refuse
    await setup.work()
    swap = await setup.last()
    assert (swap.state, swap.error_code) == ("refused", "embedder_refused")
    assert (await setup.current()).embedder == "hashed"
    assert await setup.worker.value("select count(*) from chunk_set") == 1
    await setup.assert_healthy()


async def test_kept_vectors_expire(setup: SwapSetup) -> None:
    """After their retention they are removed, and there is no way back."""
    await setup.swap()
    await setup.work()
    await setup.worker.rows(
        "update chunk_set set changed_at = changed_at - interval '8 days' where state = 'kept' returning id"
    )
    assert await setup.worker.reconcile() == {}
    await setup.work()
    assert await setup.worker.rows("select state from chunk_set") == [("live",)]
    with pytest.raises(Conflict) as nothing:
        await swap_embedder.revert(setup.db, setup.base.id, setup.registry)
    assert nothing.value.code == "nothing_to_revert"
    await setup.assert_healthy()


async def test_a_base_that_failed_because_of_its_embedder_works_again_with_another(setup: SwapSetup) -> None:
    """Its documents are retried."""
    setup.embedders["hashed"].identity = "hashed/2"
    await setup.worker.add(setup.base, note_to_add("stuck", text_of(70)))
    await setup.work()
    assert (await setup.current()).status == "failed"
    await setup.swap()
    await setup.work()
    base = await setup.current()
    assert (base.status, base.embedder) == ("ready", "other")
    assert await setup.worker.value("select status from item where title = 'stuck'") == "completed"
    await setup.assert_healthy()


async def test_the_reconciler_finds_swaps_and_removals_without_a_job(setup: SwapSetup) -> None:
    """Damage that can't come from a kill."""
    await setup.swap()
    await setup.worker.rows("delete from job returning id")
    assert await setup.worker.reconcile() == {"items": 1}
    await setup.work()
    assert (await setup.current()).embedder == "other"
    await setup.swap("bad", gate="ask")
    await setup.work()
    await swap_embedder.cancel(setup.db, setup.base.id)
    await setup.worker.rows("delete from job returning id")
    assert await setup.worker.reconcile() == {"deletions": 1}
    await setup.work()
    await setup.assert_healthy()

"""The governor's decisions: no sequence of them exceeds the limits, and nobody waits for nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.embedding import pacing
from gristmill.embedding.pacing import OtherHolders, Portion, ProviderLimits, ProviderState, Wait

limits = st.builds(
    ProviderLimits,
    requests_per_minute=st.one_of(st.none(), st.integers(1, 5000)),
    tokens_per_minute=st.one_of(st.none(), st.integers(1, 1_000_000)),
    concurrency=st.integers(1, 64),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0, 30), st.just(0)),
        st.tuples(st.just("documents"), st.integers(0, 3), st.integers(1, 20_000)),
        st.tuples(st.just("query"), st.just(0), st.integers(1, 500)),
        st.tuples(st.just("well"), st.integers(1, 20), st.just(0)),
        st.tuples(st.just("slow"), st.one_of(st.none(), st.floats(0, 90)), st.just(0)),
        st.tuples(st.just("release"), st.integers(0, 3), st.just(0)),
    ),
    max_size=60,
)


def passed(provider: ProviderState, asked: ProviderLimits, seconds: float) -> ProviderState:
    return replace(pacing.refill(provider, asked, seconds), paused=max(0.0, provider.paused - seconds))


@given(limits, steps)
@settings(max_examples=300)
def test_whatever_happens_the_limits_hold(
    asked: ProviderLimits, happens: list[tuple[str, float | None, int]]
) -> None:
    provider, elapsed = pacing.new_provider(asked), 0.0
    sent_requests = sent_tokens = 0.0
    largest = 0
    held: dict[int, Portion] = {}
    for what, value, tokens in happens:
        match what:
            case "pass":
                provider, elapsed = passed(provider, asked, value or 0), elapsed + (value or 0)
            case "well":
                provider = pacing.after_successes(provider, asked, int(value or 0))
            case "slow":
                provider = pacing.after_refusal(provider, value)
                assert provider.paused > 0
            case "release":
                held.pop(int(value or 0), None)
            case _:
                me = int(value or 0)
                rest = [portion.slots for holder, portion in held.items() if holder != me]
                if what == "query":
                    after, granted = pacing.grant_query(provider, asked, tokens=tokens)
                else:
                    others = OtherHolders(len(rest), sum(rest))
                    after, granted = pacing.grant(provider, asked, others, slots=5, tokens=tokens)
                if isinstance(granted, Wait):
                    assert granted.seconds > 0
                    assert after == provider
                    continue
                assert provider.paused == 0
                provider = after
                assert granted.requests >= 1
                assert granted.tokens >= tokens
                sent_requests += granted.requests
                sent_tokens += granted.tokens
                largest = max(largest, tokens)
                if what == "documents":
                    held[me] = granted
                    assert 1 <= granted.slots <= 5
                    # Those who hold from before a slow-down may still be more; nobody new is let in then.
                    assert sum(rest) + granted.slots <= pacing.document_slots(asked.concurrency)
        assert 1 <= provider.concurrency <= asked.concurrency
    if asked.requests_per_minute:
        most = asked.requests_burst + asked.requests_per_minute * elapsed / 60
        assert sent_requests <= most + 1e-3
    if asked.tokens_per_minute:
        # One request may be more than the bucket holds; what it owes is waited for by the next.
        most = asked.tokens_burst + asked.tokens_per_minute * elapsed / 60
        assert sent_tokens <= most + largest + 1e-3


@given(limits, st.integers(1, 50_000), st.floats(-1000, 1000), st.booleans())
def test_who_waits_as_long_as_told_gets_a_turn(
    asked: ProviderLimits, tokens: int, level: float, query: bool
) -> None:
    provider = pacing.refill(replace(pacing.new_provider(asked), requests=level / 10, tokens=level), asked, 0)
    for _ in range(2):
        if query:
            after, granted = pacing.grant_query(provider, asked, tokens=tokens)
        else:
            after, granted = pacing.grant(provider, asked, OtherHolders(), slots=1, tokens=tokens)
        if isinstance(granted, Portion):
            return
        provider = passed(after, asked, granted.seconds + 1e-3)
    pytest.fail("waited in vain")


@given(limits, st.integers(1, 100))
def test_documents_always_leave_something_to_queries(asked: ProviderLimits, rounds: int) -> None:
    provider = pacing.new_provider(asked)
    for _ in range(rounds):
        provider, granted = pacing.grant(provider, asked, OtherHolders(), slots=64, tokens=1)
        if isinstance(granted, Wait):
            break
    assert isinstance(pacing.grant_query(provider, asked, tokens=1)[1], Portion)
    assert pacing.document_slots(asked.concurrency) < max(2, asked.concurrency)


def test_requests_that_fail_together_halve_the_concurrency_once() -> None:
    provider = pacing.new_provider(ProviderLimits(None, None, 16))
    for _ in range(8):
        provider = pacing.after_refusal(provider, 3)
    assert (provider.concurrency, provider.paused, provider.strikes) == (8, 3, 1)
    assert pacing.after_refusal(provider, 7).paused == 7


def test_good_answers_bring_the_concurrency_back_one_a_round() -> None:
    asked = ProviderLimits(None, None, 16)
    provider = ProviderState(0, 0, 4, strikes=3)
    assert pacing.after_successes(provider, asked, 4) == ProviderState(0, 0, 5, strikes=0)
    assert pacing.after_successes(provider, asked, 1000).concurrency == 16


def test_pauses_grow_as_long_as_nothing_goes_well() -> None:
    provider, pauses = pacing.new_provider(ProviderLimits(None, None, 4)), list[float]()
    for _ in range(9):
        provider = pacing.after_refusal(replace(provider, paused=0), None)
        pauses.append(provider.paused)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert pacing.after_refusal(replace(provider, paused=0), 0).paused == 7.5


def test_processes_share_the_slots_evenly() -> None:
    asked = ProviderLimits(None, None, 9)
    provider = pacing.new_provider(asked)
    shares = [
        pacing.grant(provider, asked, OtherHolders(holders=n, slots=0), slots=64, tokens=0)[1]
        for n in range(4)
    ]
    assert [share.slots for share in shares if isinstance(share, Portion)] == [7, 4, 3, 2]
    assert isinstance(pacing.grant(provider, asked, OtherHolders(3, 7), slots=1, tokens=0)[1], Wait)

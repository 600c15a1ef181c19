"""The governor's decisions: no sequence of them exceeds the limits, and no wait is in vain."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.embedding import pacing
from gristmill.embedding.pacing import MustWait, OtherHolders, Portion, ProviderLimits, ProviderState

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


def after_seconds(provider: ProviderState, limits: ProviderLimits, seconds: float) -> ProviderState:
    return replace(pacing.refill(provider, limits, seconds), paused=max(0.0, provider.paused - seconds))


@given(limits, steps)
@settings(max_examples=300)
def test_whatever_happens_the_limits_hold(
    limits: ProviderLimits, happens: list[tuple[str, float | None, int]]
) -> None:
    provider, elapsed = pacing.new_provider(limits), 0.0
    sent_requests = sent_tokens = 0.0
    largest = 0
    portions: dict[int, Portion] = {}
    for action, value, tokens in happens:
        match action:
            case "pass":
                provider, elapsed = after_seconds(provider, limits, value or 0), elapsed + (value or 0)
            case "well":
                provider = pacing.after_successes(provider, limits, int(value or 0))
            case "slow":
                provider = pacing.after_refusal(provider, value)
                assert provider.paused > 0
            case "release":
                portions.pop(int(value or 0), None)
            case _:
                me = int(value or 0)
                other_slots = [portion.slots for holder, portion in portions.items() if holder != me]
                if action == "query":
                    after, grant_result = pacing.grant_query(provider, limits, tokens=tokens)
                else:
                    others = OtherHolders(len(other_slots), sum(other_slots))
                    after, grant_result = pacing.grant(provider, limits, others, slots=5, tokens=tokens)
                if isinstance(grant_result, MustWait):
                    assert grant_result.seconds > 0
                    assert after == provider
                    continue
                assert provider.paused == 0
                provider = after
                assert grant_result.requests >= 1
                assert grant_result.tokens >= tokens
                sent_requests += grant_result.requests
                sent_tokens += grant_result.tokens
                largest = max(largest, tokens)
                if action == "documents":
                    portions[me] = grant_result
                    assert 1 <= grant_result.slots <= 5
                    # Portions from before a slow-down may still be larger, but then no new one is granted.
                    assert sum(other_slots) + grant_result.slots <= pacing.document_slots(limits.concurrency)
        assert 1 <= provider.concurrency <= limits.concurrency
    if limits.requests_per_minute:
        maximum = limits.requests_burst + limits.requests_per_minute * elapsed / 60
        assert sent_requests <= maximum + 1e-3
    if limits.tokens_per_minute:
        # One request may be more than the bucket holds; what it owes is waited for by the next.
        maximum = limits.tokens_burst + limits.tokens_per_minute * elapsed / 60
        assert sent_tokens <= maximum + largest + 1e-3


@given(limits, st.integers(1, 50_000), st.floats(-1000, 1000), st.booleans())
def test_waiting_as_long_as_requested_is_enough(
    limits: ProviderLimits, tokens: int, level: float, query: bool
) -> None:
    provider = pacing.refill(
        replace(pacing.new_provider(limits), requests=level / 10, tokens=level), limits, 0
    )
    for _ in range(2):
        if query:
            after, grant_result = pacing.grant_query(provider, limits, tokens=tokens)
        else:
            after, grant_result = pacing.grant(provider, limits, OtherHolders(), slots=1, tokens=tokens)
        if isinstance(grant_result, Portion):
            return
        provider = after_seconds(after, limits, grant_result.seconds + 1e-3)
    pytest.fail("waited in vain")


@given(limits, st.integers(1, 100))
def test_documents_always_leave_something_to_queries(limits: ProviderLimits, rounds: int) -> None:
    provider = pacing.new_provider(limits)
    for _ in range(rounds):
        provider, grant_result = pacing.grant(provider, limits, OtherHolders(), slots=64, tokens=1)
        if isinstance(grant_result, MustWait):
            break
    assert isinstance(pacing.grant_query(provider, limits, tokens=1)[1], Portion)
    assert pacing.document_slots(limits.concurrency) < max(2, limits.concurrency)


def test_requests_that_fail_together_halve_the_concurrency_once() -> None:
    provider = pacing.new_provider(ProviderLimits(None, None, 16))
    for _ in range(8):
        provider = pacing.after_refusal(provider, 3)
    assert (provider.concurrency, provider.paused, provider.strikes) == (8, 3, 1)
    assert pacing.after_refusal(provider, 7).paused == 7


def test_good_answers_bring_the_concurrency_back_one_a_round() -> None:
    limits = ProviderLimits(None, None, 16)
    provider = ProviderState(0, 0, 4, strikes=3)
    assert pacing.after_successes(provider, limits, 4) == ProviderState(0, 0, 5, strikes=0)
    assert pacing.after_successes(provider, limits, 1000).concurrency == 16


def test_pauses_grow_as_long_as_nothing_goes_well() -> None:
    """S4-44: from half a second to a minute, when the provider doesn't say how long."""
    provider, pauses = pacing.new_provider(ProviderLimits(None, None, 4)), list[float]()
    for _ in range(9):
        provider = pacing.after_refusal(replace(provider, paused=0), None)
        pauses.append(provider.paused)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert pacing.after_refusal(replace(provider, paused=0), 0).paused == 7.5


def test_processes_share_the_slots_evenly() -> None:
    limits = ProviderLimits(None, None, 9)
    provider = pacing.new_provider(limits)
    shares = [
        pacing.grant(provider, limits, OtherHolders(holders=n, slots=0), slots=64, tokens=0)[1]
        for n in range(4)
    ]
    assert [share.slots for share in shares if isinstance(share, Portion)] == [7, 4, 3, 2]
    assert pacing.grant(provider, limits, OtherHolders(), slots=64, tokens=0)[1] == shares[0]
    assert pacing.grant(provider, limits, OtherHolders(3, 7), slots=1, tokens=0)[1] == MustWait(0.5)


def test_documents_leave_an_eighth_of_the_slots_and_at_least_one() -> None:
    slots = {concurrency: pacing.document_slots(concurrency) for concurrency in (1, 2, 3, 8, 9, 16, 17, 64)}
    assert slots == {1: 1, 2: 1, 3: 2, 8: 7, 9: 7, 16: 14, 17: 14, 64: 56}


def test_a_bucket_holds_six_seconds_worth() -> None:
    """S4-70."""
    limits = ProviderLimits(600, 60_000, 8)
    assert (limits.requests_burst, limits.tokens_burst) == (60, 6000)
    assert ProviderLimits(5, None, 8).requests_burst == 2
    assert pacing.new_provider(limits) == ProviderState(60, 6000, 8, strikes=0, paused=0)
    assert pacing.new_provider(ProviderLimits(None, None, 8)) == ProviderState(0, 0, 8)


def test_a_bucket_refills_evenly_and_changed_limits_apply_at_once() -> None:
    """S4-70."""
    limits = ProviderLimits(600, 60_000, 8)
    assert pacing.refill(ProviderState(0, -500, 0.25), limits, 2) == ProviderState(20, 1500, 1)
    assert pacing.refill(ProviderState(60, 6000, 16), ProviderLimits(60, None, 4), 1) == ProviderState(
        6, 0, 4
    )


def test_the_unused_rest_of_a_portion_goes_back_into_the_bucket() -> None:
    limits = ProviderLimits(600, 60_000, 8)
    unused = Portion(2, 5, 300)
    assert pacing.give_back(ProviderState(10, 1000, 8), limits, unused) == ProviderState(15, 1300, 8)
    assert pacing.give_back(ProviderState(58, 5900, 8), limits, unused) == ProviderState(60, 6000, 8)
    assert Portion() == Portion(0, 0, 0)
    assert pacing.give_back(ProviderState(10, 1000, 8), limits, Portion()) == ProviderState(10, 1000, 8)


def test_documents_take_a_quarter_of_what_is_above_the_reserve() -> None:
    """S4-70: and what they took is missing from the buckets, but only from those that have a limit."""
    limits = ProviderLimits(600, 60_000, 8)
    full = pacing.new_provider(limits)
    after, grant_result = pacing.grant(full, limits, OtherHolders(), slots=3, tokens=100)
    assert grant_result == Portion(3, (60 - 7.5) / 4, (6000 - 750) / 4)
    assert after == ProviderState(60 - (60 - 7.5) / 4, 6000 - (6000 - 750) / 4, 8)
    free = ProviderLimits(None, None, 8)
    after, grant_result = pacing.grant(pacing.new_provider(free), free, OtherHolders(), slots=3, tokens=100)
    assert after == ProviderState(0, 0, 8)
    assert grant_result == Portion(3, math.inf, math.inf)


def seconds_to_wait(grant_result: Portion | MustWait) -> float:
    assert isinstance(grant_result, MustWait)
    return grant_result.seconds


def test_documents_wait_until_the_bucket_holds_a_request_above_the_reserve() -> None:
    """S4-70."""
    limits = ProviderLimits(600, None, 8)

    def request(level: float, limits: ProviderLimits = limits) -> Portion | MustWait:
        return pacing.grant(ProviderState(level, 0, 8), limits, OtherHolders(), slots=1, tokens=100)[1]

    assert request(8.5) == Portion(1, 1, math.inf)
    assert seconds_to_wait(request(8.0)) == pytest.approx(0.05)
    assert request(8.5 - 1e-7) == Portion(1, 1, math.inf)  # a rounding error
    # The reserve of a small bucket is one request.
    assert request(2.0, ProviderLimits(40, None, 8)) == Portion(1, 1, math.inf)
    assert seconds_to_wait(request(1.5, ProviderLimits(40, None, 8))) == pytest.approx(0.75)


def test_a_query_takes_what_it_needs_and_no_slot() -> None:
    limits = ProviderLimits(600, 60_000, 8)
    after, grant_result = pacing.grant_query(ProviderState(1, 50, 8), limits, tokens=50)
    assert grant_result == Portion(0, 1, 50)
    assert after == ProviderState(0, 0, 8)
    assert seconds_to_wait(pacing.grant_query(after, limits, tokens=50)[1]) == pytest.approx(0.1)
    assert seconds_to_wait(pacing.grant_query(after, limits, tokens=500)[1]) == pytest.approx(0.5)
    # A rounding error.
    assert isinstance(pacing.grant_query(ProviderState(1, -1e-6, 8), limits, tokens=0)[1], Portion)


def test_a_refusal_during_a_pause_only_prolongs_the_pause() -> None:
    """S4-44."""
    paused = ProviderState(0, 0, 8, strikes=1, paused=0.5)
    assert pacing.after_refusal(paused, None) == paused
    assert pacing.after_refusal(paused, 3) == replace(paused, paused=3)
    assert pacing.after_successes(paused, ProviderLimits(None, None, 8), 0) == paused

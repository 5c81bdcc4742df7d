"""What the oracle itself has to keep, whatever is asked of it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.histories import PERIODS, Step, histories
from tests.oracle.model import MAX, SECOND, AlgorithmName, Op
from tests.oracle.request import Oracle, denied, wait_of

Admitted = list[tuple[int, int]]


@given(histories(steps=25))
def test_at_the_wait_the_request_passes_and_not_a_microsecond_earlier(history: list[Step]) -> None:
    oracle = Oracle()
    for step in history:
        for ops in step.requests:
            wait = wait_of(ops, outcomes := oracle.decide(step.now_us, ops))
            if not denied(ops, outcomes) or wait is None or wait == MAX:
                continue
            assert wait > 0
            assert _denied_later(oracle, step.now_us + wait - 1, ops)
            assert not _denied_later(oracle, step.now_us + wait, ops)


@given(histories(steps=25))
def test_at_the_reset_the_whole_capacity_is_there(history: list[Step]) -> None:
    oracle = Oracle()
    for step in history:
        for ops in step.requests:
            for op, outcome in zip(ops, oracle.decide(step.now_us, ops), strict=True):
                if op.algorithm == "fixed_window" or outcome.reset_us == MAX:
                    continue
                whole = replace(op, action="charge", cost=op.capacity, shadow=False)
                assert not _denied_later(oracle, step.now_us + outcome.reset_us, [whole])


@given(histories(steps=25))
def test_a_denied_request_takes_nothing(history: list[Step]) -> None:
    oracle = Oracle()
    for step in history:
        for ops in step.requests:
            looks = [replace(op, action="peek", cost=1) for op in ops if not op.is_taken_anyway]
            before = oracle.decide(step.now_us, looks)
            if denied(ops, oracle.decide(step.now_us, ops)):
                assert oracle.decide(step.now_us, looks) == before


@given(histories(steps=25))
def test_what_counts_denials_is_taken_whoever_denies(history: list[Step]) -> None:
    oracle = Oracle()
    for step in history:
        for ops in step.requests:
            charges = [op for op in ops if op.is_taken_anyway]
            looks = [replace(op, action="peek", cost=1) for op in charges]
            before = [outcome.remaining for outcome in oracle.decide(step.now_us, looks)]
            oracle.decide(step.now_us, ops)
            after = [outcome.remaining for outcome in oracle.decide(step.now_us, looks)]
            assert after == [
                max(0, left - op.cost) for op, left in zip(charges, before, strict=True)
            ]


@st.composite
def takings(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(microseconds since the last, cost): a clock that only runs forward."""
    steps = st.one_of(st.integers(0, 2 * SECOND), st.just(0), st.integers(0, 30 * SECOND))
    return draw(st.lists(st.tuples(steps, st.integers(1, 6)), max_size=60))


def _admit(algorithm: AlgorithmName, n: int, period: int, burst: int, asked: Admitted) -> Admitted:
    oracle, now, admitted = Oracle(), 1_764_600_000 * SECOND, []
    for later, cost in asked:
        now += later
        if oracle.decide(now, [Op("k", algorithm, n, period, burst, cost=cost)])[0].fits:
            admitted.append((now, cost))
    return admitted


@given(takings(), st.integers(1, 12), st.sampled_from(PERIODS[:4]))
def test_a_fixed_window_never_admits_more_than_n(asked: Admitted, n: int, period: int) -> None:
    counts: dict[int, int] = {}
    for now, cost in _admit("fixed_window", n, period, n, asked):
        counts[now // period] = counts.get(now // period, 0) + cost
    assert all(count <= n for count in counts.values())


@given(takings(), st.integers(1, 12), st.sampled_from(PERIODS[:4]))
def test_a_log_never_admits_more_than_n_in_any_period(asked: Admitted, n: int, period: int) -> None:
    admitted = _admit("sliding_log", n, period, n, asked)
    for end, _ in admitted:
        assert sum(cost for now, cost in admitted if end - period < now <= end) <= n


def _most_in_a_period(asked: Admitted, op: Op) -> int:
    """The most that any period admits, looked at as it ends with each admission."""
    oracle, now, admitted = Oracle(), 1_764_600_000 * SECOND, []
    for later, cost in asked:
        now += later
        if oracle.decide(now, [replace(op, cost=cost)])[0].fits:
            admitted.append((now, cost))
    return max(
        (
            sum(cost for at, cost in admitted if end - op.period_us < at <= end)
            for end, _ in admitted
        ),
        default=0,
    )


SPLITS = st.sampled_from([1, 2, 3, 7, 60])


@given(takings(), st.integers(1, 12), st.sampled_from(PERIODS[:4]), SPLITS)
def test_a_conservative_window_never_admits_more_than_n_in_any_period(
    asked: Admitted, n: int, period: int, slots: int
) -> None:
    op = Op("k", "sliding_slots", n, period, n, slots=slots, is_conservative=True)
    assert _most_in_a_period(asked, op) <= n


@given(takings(), st.integers(1, 12), st.sampled_from(PERIODS[:4]), SPLITS)
def test_a_window_in_slots_never_admits_more_than_twice_n_in_any_period(
    asked: Admitted, n: int, period: int, slots: int
) -> None:
    op = Op("k", "sliding_slots", n, period, n, slots=slots)
    assert _most_in_a_period(asked, op) <= 2 * n


def test_twice_n_is_reached_at_the_edge_of_a_slot_whatever_their_number() -> None:
    period, n = 60 * SECOND, 60_000
    start = 1_764_600_000 * SECOND
    for slots in (2, 6, 60):
        length = period // slots
        op = Op("k", "sliding_slots", n, period, n, slots=slots)
        # All of it in the last moment of a slot, and again as soon as the weight of it falls.
        asked = [(start + length - 1, n)] + [
            (start + period + length * part // 1000, n // 1000) for part in range(1000)
        ]
        oracle = Oracle()
        taken = [cost for at, cost in asked if oracle.decide(at, [replace(op, cost=cost)])[0].fits]
        assert sum(taken) > 1.99 * n, slots


@given(histories(steps=25))
def test_one_slot_is_the_plain_sliding_window(history: list[Step]) -> None:
    plain, split = Oracle(), Oracle()
    for step in history:
        for ops in step.requests:
            if any(op.algorithm not in {"sliding_window", "fixed_window"} for op in ops):
                continue
            same = [
                replace(op, algorithm="sliding_slots", slots=1, is_conservative=False)
                if op.algorithm == "sliding_window"
                else op
                for op in ops
            ]
            assert split.decide(step.now_us, same) == plain.decide(step.now_us, ops)


@given(takings(), st.integers(1, 12), st.integers(1, 12), st.sampled_from(PERIODS[:4]))
def test_a_bucket_never_admits_more_than_its_size_and_what_drained(
    asked: Admitted, n: int, burst: int, period: int
) -> None:
    admitted = _admit("token_bucket", n, period, burst, asked)
    for first, (start, _) in enumerate(admitted):
        taken = 0
        for now, cost in admitted[first:]:
            taken += cost
            assert taken * period <= burst * period + n * (now - start)


def _denied_later(oracle: Oracle, now: int, ops: list[Op]) -> bool:
    """Whether these would be denied at `now` if nobody else takes anything until then."""
    copy = Oracle()
    copy.states = dict(oracle.states)
    copy.ttl_us = dict(oracle.ttl_us)
    return denied(ops, copy.decide(now, ops))

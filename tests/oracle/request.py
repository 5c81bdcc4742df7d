"""Whole requests: several limits, all or nothing, one counter after another in a dict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle.fixed_window import FixedWindow
from tests.oracle.model import FREEZE, MAX, NEVER, SECOND, Algorithm, AlgorithmName, Op, Outcome
from tests.oracle.quota import Quota
from tests.oracle.sliding_log import SlidingLog
from tests.oracle.sliding_window import SlidingWindow
from tests.oracle.slots import SlidingSlots
from tests.oracle.token_bucket import TokenBucket

ALGORITHMS: dict[AlgorithmName, Algorithm[Any]] = {
    "fixed_window": FixedWindow(),
    "sliding_window": SlidingWindow(),
    "sliding_log": SlidingLog(),
    "token_bucket": TokenBucket(),
    "quota": Quota(),
    "sliding_slots": SlidingSlots(),
}


@dataclass(frozen=True, slots=True)
class _View:
    """One counter as one operation meets it."""

    state: Any
    now: int
    skew: int
    must_write: bool


class Oracle:
    """Decides requests from a dict of states, with no clock and no I/O of its own."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self.ttl_us: dict[str, int] = {}
        """For each key the life that its last write gave it."""

    def decide(self, now_us: int, ops: Sequence[Op]) -> list[Outcome]:
        """Decides one request and does what it asks, if it is allowed.

        Args:
            now_us: the time of the store.
            ops: one operation for each limit that the request meets, each on another key.

        Returns:
            One outcome for each operation, in order.
        """
        views = [self._view(op, now_us) for op in ops]
        fits = [_fits(op, view) for op, view in zip(ops, views, strict=True)]
        is_denied = any(not fit and not op.shadow for op, fit in zip(ops, fits, strict=True))
        return [
            self._apply(op, view, fit, is_denied=is_denied)
            for op, view, fit in zip(ops, views, fits, strict=True)
        ]

    def decide_batch(self, now_us: int, requests: Sequence[Sequence[Op]]) -> list[list[Outcome]]:
        """Decides requests one after another; later ones see what earlier ones took."""
        return [self.decide(now_us, ops) for ops in requests]

    def _view(self, op: Op, now: int) -> _View:
        algorithm = ALGORITHMS[op.algorithm]
        state = self.states.get(op.key)
        if state is None:
            return _View(None, now, 0, must_write=False)
        skew = max(0, algorithm.last(state) - now)
        is_rebased = skew > FREEZE
        if is_rebased:
            state, skew = algorithm.rebase(state, now), 0
        settled = algorithm.advance(state, now + skew)
        retuned = settled and algorithm.retune(settled, op)
        if algorithm.used(retuned, now + skew) == 0:  # of which nothing is left, is no state
            return _View(None, now, 0, must_write=False)
        return _View(retuned, now + skew, skew, must_write=is_rebased or retuned != settled)

    def _apply(self, op: Op, view: _View, fit: bool, *, is_denied: bool) -> Outcome:
        algorithm = ALGORITHMS[op.algorithm]
        is_done = op.is_taken_anyway or (fit and not is_denied)
        state, is_written = view.state, view.must_write
        if is_done and op.action == "charge" and op.cost:
            state, is_written = algorithm.charge(state, op, view.now), True
        elif is_done and op.action == "refund" and state is not None:
            state, is_written = algorithm.refund(state, op, view.now), True
        skew = 0 if state is None else view.skew
        reset = min(MAX, algorithm.unused_at(state, op, view.now) - view.now + skew)
        if is_written and state is None:
            del self.states[op.key], self.ttl_us[op.key]
        elif is_written:
            self.states[op.key] = state
            self.ttl_us[op.key] = min(MAX, reset + SECOND)
        return Outcome(
            fits=fit,
            remaining=max(0, op.capacity - algorithm.used(state, view.now)),
            wait_us=self._wait_after(op, view, state, fit, is_denied=is_denied),
            reset_us=reset,
        )

    def _wait_after(self, op: Op, view: _View, state: Any, fit: bool, *, is_denied: bool) -> int:
        """The wait, reckoned from what a charge that is taken anyway has left."""
        if op.is_taken_anyway and (is_denied or not fit):
            after = replace(view, state=state)
            return 0 if _fits(op, after) else _wait(op, after)
        return 0 if fit else _wait(op, view)


def denied(ops: Sequence[Op], outcomes: Sequence[Outcome]) -> bool:
    """Whether the request was denied: some limit that is not in shadow had no room."""
    return any(
        not outcome.fits and not op.shadow for op, outcome in zip(ops, outcomes, strict=True)
    )


def wait_of(ops: Sequence[Op], outcomes: Sequence[Outcome]) -> int | None:
    """The least time after which a denied request passes; None where no wait helps.

    A limit that had room and was charged all the same may be what it waits for.
    """
    waits = [outcome.wait_us for op, outcome in zip(ops, outcomes, strict=True) if not op.shadow]
    return None if NEVER in waits else max(waits, default=0)


def _fits(op: Op, view: _View) -> bool:
    used = ALGORITHMS[op.algorithm].used(view.state, view.now)
    return op.action == "refund" or used + op.asked <= op.capacity


def _wait(op: Op, view: _View) -> int:
    """By the definition of the wait: the first moment at which the operation fits."""
    if op.asked > op.capacity:
        return NEVER
    algorithm = ALGORITHMS[op.algorithm]

    def fits_after(wait: int) -> bool:
        later = algorithm.advance(view.state, view.now + wait)
        return algorithm.used(later, view.now + wait) + op.asked <= op.capacity

    unused = algorithm.unused_at(view.state, op, view.now) - view.now
    return min(MAX, _first(fits_after, unused) + view.skew)


def _first(holds: Callable[[int], bool], known: int) -> int:
    """The least number from 0 to `known` at which `holds`; it holds from there on."""
    low, high = 0, known
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low

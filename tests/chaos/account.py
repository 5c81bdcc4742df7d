"""The accountant: what a run's answers come to, against an exact limiter."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.chaos.keys import WINDOW_S, Key, Sample

MAY_HAVE_RUN = frozenset({"timeout", "lost", "protocol", "not_permitted", "other"})
"""Kinds of failed calls that may have charged; all others are known not to have run."""


@dataclass(frozen=True, slots=True)
class Counter:
    """What the store holds of one limit at the end: `count`, by requests for these `keys`.

    With `is_alone`, its requests meet no other counter: of one that failed is then known how. With
    `is_exact`, an answer says that its charge is there.
    """

    count: int
    keys: tuple[int, ...]
    is_alone: bool = True
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a run when it is over.

    Args:
        keys: Who was asked for.
        samples: What became of each request.
        counters: What the store holds, where the window lasts.
        failed: Calls to the store that failed, by class, as the nodes' metrics have them; None
            where a node's were lost.
        began: When the fault began, in seconds of the wall clock.
        ended: When what was done to the servers was done, or undone: from then on all may be well.
        clock_steps: How often the store's clock was set.
    """

    keys: Sequence[Key]
    samples: Sequence[Sample]
    counters: Sequence[Counter]
    failed: Mapping[str, int] | None
    began: float
    ended: float
    clock_steps: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What a run came to, in requests unless the name says otherwise.

    Args:
        asked: All of them.
        degraded: Those that `on_store_failure` decided.
        over: Admitted by the store beyond a limit, over all keys and windows.
        over_in_all: The same with what `on_store_failure: open` let pass.
        under: Denied by the store though the exact limiter had room, whatever is assumed of
            requests whose charge is not known.
        twice: Charged though nobody was admitted for it, nor any call may have left it.
        lost: Admitted by the store, and not in it at the end.
        errors: Callers that got no answer.
        slowest_ms: The slowest answer of those that the store was to decide.
        slowest_free_ms: The slowest of those that need no store, in the same time.
        away_s: The longest time in which the load itself, which needs nobody, did not run.
        normal_s: From the end of the fault until each key had an exact answer; None if never.
    """

    asked: int
    degraded: int
    over: int
    over_in_all: int
    under: int
    twice: int
    lost: int
    errors: int
    slowest_ms: float
    slowest_free_ms: float
    away_s: float
    normal_s: float | None


def account(run: Run) -> Account:
    """Draws up the account."""
    by_key: dict[int, list[Sample]] = defaultdict(list)
    for sample in sorted(run.samples, key=lambda it: it.sent):
        by_key[sample.key].append(sample)
    overs = [_over(run.keys[at], mine, run.clock_steps) for at, mine in by_key.items()]
    charges = [
        (it, *_charges(it.count, (one for at in it.keys for one in by_key[at])))
        for it in run.counters
    ]
    twice = sum(max(0, more - unknown) for _, more, unknown in charges)
    if run.failed is not None:
        may = sum(count for kind, count in run.failed.items() if kind in MAY_HAVE_RUN)
        may += sum(sample.attempts - 1 + bool(sample.error) for sample in run.samples)
        # What passed without the store is charged when that is back, if its call was never sent.
        may += sum(bool(sample.degraded and sample.allowed) for sample in run.samples)
        twice = max(twice, sum(max(0, more) for it, more, _ in charges if it.is_alone) - may)
    return Account(
        asked=len(run.samples),
        degraded=sum(sample.degraded for sample in run.samples),
        over=sum(exact for exact, _ in overs),
        over_in_all=sum(in_all for _, in_all in overs),
        under=0
        if run.clock_steps
        else sum(_under(run.keys[at], mine) for at, mine in by_key.items()),
        twice=twice,
        lost=sum(max(0, -more) for it, more, _ in charges if it.is_exact),
        errors=sum(bool(sample.error) for sample in run.samples),
        slowest_ms=_slowest_ms(it for it in run.samples if run.keys[it.key].is_counted),
        slowest_free_ms=_slowest_ms(it for it in run.samples if not run.keys[it.key].is_counted),
        away_s=_away(sorted(sample.sent for sample in run.samples)),
        normal_s=_normal(
            run.ended, (mine for at, mine in by_key.items() if run.keys[at].is_counted)
        ),
    )


def _charges(stored: int, samples: Iterable[Sample]) -> tuple[int, int]:
    """How much more the store holds than it admitted, and how much of that may be explained."""
    mine = list(samples)
    admitted = sum(bool(it.allowed) and it.is_exact for it in mine)
    return stored - admitted, sum(it.unknown for it in mine)


def _windows(sample: Sample) -> tuple[int, int]:
    """The first and the last window that the store may have decided in."""
    return int(sample.sent // WINDOW_S), int(sample.answered // WINDOW_S)


def _over(key: Key, samples: Sequence[Sample], clock_steps: int) -> tuple[int, int]:
    """What was admitted too much, by the store and in all."""
    exact: dict[int, int] = defaultdict(int)
    in_all: dict[int, int] = defaultdict(int)
    allowed = [sample for sample in samples if sample.allowed]
    if not key.has_windows:
        exact[0] = sum(sample.is_exact for sample in allowed)
        in_all[0] = len(allowed)
    elif clock_steps:
        # Nobody knows which windows the store saw: it may have begun one more at each step.
        first, last = _windows(samples[0])[0], _windows(samples[-1])[1]
        room = key.limit * (last - first + 1 + clock_steps)
        return (
            max(0, sum(sample.is_exact for sample in allowed) - room),
            max(0, len(allowed) - room),
        )
    else:
        for sample in allowed:
            first, last = _windows(sample)
            if first == last:
                exact[first] += sample.is_exact
                in_all[first] += 1
    return (
        sum(max(0, count - key.limit) for count in exact.values()),
        sum(max(0, count - key.limit) for count in in_all.values()),
    )


def _under(key: Key, samples: Sequence[Sample]) -> int:
    """Denials by the store which nothing that may have been charged before them explains."""
    unknown = [sample.sent for sample in samples for _ in range(sample.unknown)]
    charged: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        if sample.allowed and sample.is_exact:
            first, last = _windows(sample) if key.has_windows else (0, 0)
            for window in range(first, last + 1):
                charged[window].append(sample.sent)
    found = 0
    for sample in samples:
        if sample.allowed is not False or not sample.is_exact:
            continue
        first, last = _windows(sample) if key.has_windows else (0, 0)
        # A call whose answer was given up may run later, in another window than it was sent in.
        may = bisect_right(unknown, sample.answered)
        before = (
            bisect_right(charged[window], sample.answered) for window in range(first, last + 1)
        )
        found += max(before) + may < key.limit
    return found


def _away(sent: Sequence[float]) -> float:
    return max((later - one for one, later in pairwise(sent)), default=0.0)


def _slowest_ms(samples: Iterable[Sample]) -> float:
    return max((it.answered - it.sent for it in samples), default=0.0) * 1000


def _normal(ended: float, keys: Iterable[Sequence[Sample]]) -> float | None:
    """When the last key had its first exact answer to a request after the fault."""
    slowest = 0.0
    for samples in keys:
        exact = (it.answered for it in samples if it.sent >= ended and it.is_exact)
        first = min(exact, default=None)
        if first is None:
            return None
        slowest = max(slowest, first - ended)
    return slowest

"""What a decision must say, worked out from the oracle: the pipeline in a few lines of Python."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tests.oracle.model import NEVER, AlgorithmName, Op, Outcome
from tests.oracle.request import Oracle

Verb = Literal["hit", "peek", "refund"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rate of one limit, as the test draws it. A rate of None is unlimited."""

    id: str
    algorithm: AlgorithmName
    n: int | None
    period_s: int
    burst: int
    is_keyed_by_period: bool
    shadow: bool = False
    counts: str = "requests"
    per: str | None = None
    count_denied: bool = False

    @property
    def capacity(self) -> int:
        """The most at once."""
        return self.burst if self.algorithm == "token_bucket" else self.n or 0

    @property
    def window_us(self) -> int:
        """The time in which a full counter comes back."""
        period_us = self.period_s * 1_000_000
        if self.algorithm != "token_bucket" or not self.n:
            return period_us
        return -(-self.burst * period_us // self.n)


@dataclass(frozen=True, slots=True)
class Report:
    """What is said of one limit."""

    id: str
    allowed: bool
    limit: int
    remaining: int
    reset_us: int
    shadow: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """What is said of a request."""

    allowed: bool
    reason: str
    retry_after_us: int | None
    binding: int | None
    limits: tuple[Report, ...]


BLOCKED = Outcome(fits=False, remaining=0, wait_us=NEVER, reset_us=0)


def expect(
    oracle: Oracle, now_us: int, rules: Sequence[tuple[Rule, str, int]], verb: Verb
) -> Expected:
    """Decides by the oracle.

    Args:
        oracle: Holds the counters.
        now_us: The time.
        rules: Each rule that applies, with the values of its key as one text, and its cost.
        verb: Charge, look or give back.
    """
    met = [rule for rule in rules if rule[0].n is not None]
    is_blocked = any(rule.n == 0 and not rule.shadow for rule, _, _ in met)
    ops = [
        _as_look(op) if is_blocked and not op.is_taken_anyway else op
        for op in (_op(rule, key, cost, verb) for rule, key, cost in met if rule.n)
    ]
    answers = iter(oracle.decide(now_us, ops))
    outcomes = [next(answers) if rule.n else BLOCKED for rule, _, _ in met]
    return _conclude([rule for rule, _, _ in met], outcomes)


def _op(rule: Rule, key: str, cost: int, verb: Verb) -> Op:
    period = rule.period_s if rule.is_keyed_by_period else 0
    op = Op(
        key=f"{rule.id}|{rule.algorithm}|{period}|{key}",
        algorithm=rule.algorithm,
        n=rule.n or 0,
        period_us=rule.period_s * 1_000_000,
        burst=rule.burst,
        action="charge" if verb == "hit" else verb,
        cost=cost,
        shadow=rule.shadow,
        count_denied=rule.count_denied,
    )
    return op if cost else _as_look(op)


def _as_look(op: Op) -> Op:
    return replace(op, action="peek", cost=max(op.cost, 1))


def _conclude(rules: Sequence[Rule], outcomes: Sequence[Outcome]) -> Expected:
    denying = [
        at
        for at, (rule, outcome) in enumerate(zip(rules, outcomes, strict=True))
        if not outcome.fits and not rule.shadow
    ]
    binding = _binding(rules, outcomes, denying)
    reason, wait = "ok", None
    if denying and binding is not None:
        wait = None if outcomes[binding].wait_us == NEVER else _latest(rules, outcomes)
        never = "blocked" if rules[binding].n == 0 else "cost_exceeds_limit"
        reason = never if wait is None else "over_limit"
    reports = tuple(
        Report(
            rule.id, outcome.fits, rule.capacity, outcome.remaining, outcome.reset_us, rule.shadow
        )
        for rule, outcome in zip(rules, outcomes, strict=True)
    )
    return Expected(not denying, reason, wait, binding, reports)


def _latest(rules: Sequence[Rule], outcomes: Sequence[Outcome]) -> int:
    """The wait of the whole request: one that had room may have been charged, and be the last."""
    pairs = zip(rules, outcomes, strict=True)
    return max(outcome.wait_us for rule, outcome in pairs if not rule.shadow)


def _binding(
    rules: Sequence[Rule], outcomes: Sequence[Outcome], denying: Sequence[int]
) -> int | None:
    """The denying limit that frees last, else the one with the least left; the first of equals."""
    if denying:
        waits = {at: outcomes[at].wait_us for at in denying}
        return max(denying, key=lambda at: (waits[at] == NEVER, waits[at]))
    places = [at for at, rule in enumerate(rules) if not rule.shadow] or list(range(len(rules)))

    def fullness(at: int) -> tuple[float, int]:
        # No two shares of what the tests draw are closer than a double can tell.
        rule = rules[at]
        return (outcomes[at].remaining / rule.capacity if rule.capacity else 0, -rule.window_us)

    return min(places, key=fullness) if places else None

"""Memory = oracle, decision by decision, numbers and waits included."""

import json
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.memory import histories
from tests.contract.memory.expected import Expected, Report, Rule, expect
from tests.contract.memory.histories import START_US, Step
from tests.oracle.model import AlgorithmName
from tests.oracle.request import Oracle
from tidegate import Decision, Limiter

SEEDS = st.integers(0, 2**32 - 1)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_us = START_US

    def __call__(self) -> float:
        return self.now_us / 1_000_000

    def move(self, dt_us: int) -> None:
        """Moves on, or back."""
        self.now_us = max(START_US - 10**9, self.now_us + dt_us)


def said(decision: Decision) -> Expected:
    """A decision in the form of the oracle's."""
    wait = decision.retry_after
    return Expected(
        decision.allowed,
        decision.reason,
        None if wait is None else round(wait * 1_000_000),
        decision.binding,
        tuple(
            Report(
                limit.id,
                limit.allowed,
                limit.limit,
                limit.remaining,
                round(limit.reset_after * 1_000_000),
                limit.shadow,
            )
            for limit in decision.limits
        ),
    )


def rounded(expected: Expected) -> Expected:
    """What a double still holds of the longest times."""

    def by_double(us: int) -> int:
        return round(us / 1_000_000 * 1_000_000)

    wait = expected.retry_after_us
    return Expected(
        expected.allowed,
        expected.reason,
        None if wait is None else by_double(wait),
        expected.binding,
        tuple(
            Report(
                limit.id,
                limit.allowed,
                limit.limit,
                limit.remaining,
                by_double(limit.reset_us),
                limit.shadow,
            )
            for limit in expected.limits
        ),
    )


def policy_text(rules: Sequence[Rule]) -> bytes:
    """The policy file of these rules (JSON is YAML)."""
    limits = []
    for rule in rules:
        limit: dict[str, object] = {
            "id": rule.id,
            "rate": "unlimited" if rule.n is None else f"{rule.n}per{rule.period_s}s",
            "algorithm": rule.algorithm,
            "counts": rule.counts,
        }
        if rule.algorithm == "token_bucket" and rule.n:
            limit["burst"] = rule.burst
        if rule.per:
            limit["per"] = [rule.per]
        if rule.shadow:
            limit["on_exceed"] = "shadow"
        if rule.count_denied:
            limit["count_denied"] = True
        limits.append(limit)
    return json.dumps({"version": 1, "domains": {"d": {"limits": limits}}}).encode()


def applying(rules: Sequence[Rule], one: Step) -> list[tuple[Rule, str, int]]:
    """The rules that a request meets."""
    return [
        (rule, one.descriptor[rule.per] if rule.per else "", one.costs[rule.counts])
        for rule in rules
        if rule.counts in one.costs and (rule.per is None or rule.per in one.descriptor)
    ]


@given(seed=SEEDS, steps=st.integers(1, 100))
def test_a_policy_decides_as_the_oracle_does(seed: int, steps: int) -> None:
    rng = Random(seed)
    rules = [histories.rule_of(rng, at) for at in range(rng.randint(1, 4))]
    clock, oracle = Clock(), Oracle()
    with Limiter(clock=clock) as limiter:
        policy = limiter.policy(policy_text(rules), domain="d")
        ask = {"hit": policy.hit, "peek": policy.peek, "refund": policy.refund}
        for _ in range(steps):
            one = histories.step_of(rng)
            clock.move(one.dt_us)
            if rng.random() < 0.05:
                changed = rng.randrange(len(rules))
                rules[changed] = histories.renumbered(rng, rules[changed])
                policy.reload(policy_text(rules))
            answer = said(ask[one.verb](one.descriptor, one.costs or {"other": 1}))
            expected = expect(oracle, clock.now_us, applying(rules, one), one.verb)
            assert answer == rounded(expected), (rules, one)


@given(seed=SEEDS, steps=st.integers(1, 100))
def test_a_limit_in_code_decides_as_the_oracle_does(seed: int, steps: int) -> None:
    rng = Random(seed)
    algorithm = rng.choice(histories.ALGORITHMS)
    periods = rng.sample(histories.PERIODS_S, rng.randint(1, 3))

    def drawn() -> list[Rule]:
        return [_rule(rng.randint(1, 9), period, algorithm, len(periods)) for period in periods]

    rules, clock, oracle = drawn(), Clock(), Oracle()
    with Limiter(clock=clock) as limiter:
        limit = limiter.limit(_rates(rules), id="l", algorithm=algorithm)
        for _ in range(steps):
            clock.move(histories.time_between(rng, periods[0]))
            if rng.random() < 0.1:
                rules = drawn()
                limit = limiter.limit(_rates(rules), id="l", algorithm=algorithm)
            verb, cost = rng.choice(histories.VERBS), rng.choice([0, 1, 1, 1, 2, 5, 9])
            parts = rng.choice([("a",), ("a", "b"), ("ab",), (1, "x", b"y")])
            ask = {"hit": limit.hit, "peek": limit.peek, "refund": limit.refund}[verb]
            met = [(rule, repr(parts), cost) for rule in rules]
            expected = expect(oracle, clock.now_us, met, verb)
            assert said(ask(*parts, cost=cost)) == rounded(expected), (rules, verb, parts, cost)


def _rule(n: int, period_s: int, algorithm: AlgorithmName, rates: int) -> Rule:
    return Rule("l", algorithm, n, period_s, n, rates > 1 or algorithm != "token_bucket")


def _rates(rules: Sequence[Rule]) -> str:
    return "; ".join(f"{rule.n} per {rule.period_s} s" for rule in rules)

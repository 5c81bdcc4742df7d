"""Memory = oracle, decision by decision, numbers and waits included."""

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.memory import histories
from tests.contract.memory.expected import Expected, Report, Rule, Verb, expect
from tests.contract.memory.histories import START_US, Step, numbered
from tests.oracle.request import Oracle
from tidegate import Decision, Limiter


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
        limits.append(limit)
    return json.dumps({"version": 1, "domains": {"d": {"limits": limits}}}).encode()


def applying(rules: Sequence[Rule], one: Step) -> list[tuple[Rule, str, int]]:
    """The rules that a request meets."""
    return [
        (rule, one.descriptor[rule.per] if rule.per else "", one.costs[rule.counts])
        for rule in rules
        if rule.counts in one.costs and (rule.per is None or rule.per in one.descriptor)
    ]


@given(st.data())
def test_a_policy_decides_as_the_oracle_does(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    rules = [data.draw(histories.rule(at)) for at in range(count)]
    steps = data.draw(st.lists(histories.step(count), min_size=30, max_size=60))
    clock, oracle = Clock(), Oracle()
    with Limiter(clock=clock) as limiter:
        policy = limiter.policy(policy_text(rules), domain="d")
        ask = {"hit": policy.hit, "peek": policy.peek, "refund": policy.refund}
        for one in steps:
            clock.move(one.dt_us)
            if one.change is not None:
                changed = numbered(rules[one.change], *data.draw(histories.numbers()))
                rules[one.change] = changed
                policy.reload(policy_text(rules))
            costs = one.costs or {"other": 1}
            answer = said(ask[one.verb](one.descriptor, costs))
            expected = expect(oracle, clock.now_us, applying(rules, one), one.verb)
            assert answer == rounded(expected)


@given(st.data())
def test_a_limit_in_code_decides_as_the_oracle_does(data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(histories.ALGORITHMS))
    periods = data.draw(
        st.lists(st.sampled_from([1, 2, 7, 60]), min_size=1, max_size=3, unique=True)
    )
    verbs: st.SearchStrategy[Verb] = st.sampled_from(["hit", "hit", "hit", "peek", "refund"])
    steps = data.draw(
        st.lists(
            st.tuples(
                histories.steps_back_and_forth(periods[0]),
                verbs,
                st.sampled_from([("a",), ("a", "b"), ("ab",), (1, "x", b"y")]),
                st.integers(0, 9),
                st.booleans(),
            ),
            min_size=30,
            max_size=60,
        )
    )

    def drawn() -> list[Rule]:
        return [
            _rule(data.draw(st.integers(1, 9)), period, algorithm, is_alone=len(periods) == 1)
            for period in periods
        ]

    rules, clock, oracle = drawn(), Clock(), Oracle()
    with Limiter(clock=clock) as limiter:
        limit = limiter.limit(_rates(rules), id="l", algorithm=algorithm)
        for dt_us, verb, parts, cost, is_changed in steps:
            clock.move(dt_us)
            if is_changed and data.draw(st.integers(0, 3)) == 0:
                rules = drawn()
                limit = limiter.limit(_rates(rules), id="l", algorithm=algorithm)
            ask = {"hit": limit.hit, "peek": limit.peek, "refund": limit.refund}[verb]
            answer = said(ask(*parts, cost=cost))
            met = [(rule, repr(parts), cost) for rule in rules]
            assert answer == rounded(expect(oracle, clock.now_us, met, verb))


def _rule(n: int, period_s: int, algorithm: str, *, is_alone: bool) -> Rule:
    named = next(one for one in histories.ALGORITHMS if one == algorithm)
    return Rule("l", named, n, period_s, n, not is_alone or named != "token_bucket")


def _rates(rules: Sequence[Rule]) -> str:
    return "; ".join(f"{rule.n} per {rule.period_s} s" for rule in rules)

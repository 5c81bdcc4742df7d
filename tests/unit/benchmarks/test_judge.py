"""The judge of the accuracy table: it finds what is wrong for sure, and calls no race a fault."""

from collections.abc import Callable
from random import Random

import pytest

from benchmarks.accuracy.judge import judge
from benchmarks.accuracy.rule import SECOND_US, Exchange, Rule
from tests.oracle.model import AlgorithmName, Op
from tests.oracle.request import Oracle

ALGORITHMS: list[AlgorithmName] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "token_bucket",
]
WINDOWS = [name for name in ALGORITHMS if name != "token_bucket"]
N = 20
Decide = Callable[[int, bool], bool]


def rule_of(algorithm: AlgorithmName, n: int = N) -> Rule:
    return Rule(algorithm, n, SECOND_US)


def history(rule: Rule, decide: Decide, *, blur_us: int = 0, count: int = 400) -> list[Exchange]:
    """Requests at three times the limit's rate, answered as `decide` makes of what is exact."""
    rng, oracle, now = Random(5), Oracle(), 10 * SECOND_US
    op = Op("k", rule.algorithm, rule.n, rule.period_us, rule.n)
    peek = Op("k", rule.algorithm, rule.n, rule.period_us, rule.n, cost=0)
    charged = Op("k", rule.algorithm, rule.n, rule.period_us, rule.n, count_denied=True)
    seen = []
    for _ in range(count):
        now += rng.randrange(2 * rule.period_us // (3 * rule.n))
        (outcome,) = oracle.decide(now, [peek])
        allowed = decide(now, outcome.fits)
        if allowed:
            is_log = rule.algorithm == "sliding_log"
            oracle.decide(now, [op if is_log else charged])
        before, after = rng.randint(0, blur_us), rng.randint(0, blur_us)
        seen.append(Exchange(now - before, now + after, allowed))
    return seen


@pytest.mark.parametrize("blur_us", [0, 1_000, 200_000])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_exact_limiter_is_never_blamed_however_long_answers_take(
    algorithm: AlgorithmName, blur_us: int
) -> None:
    rule = rule_of(algorithm)
    verdict = judge(rule, history(rule, lambda _, fits: fits, blur_us=blur_us))
    assert (verdict.over, verdict.under, verdict.wrong) == (0, 0, 0)
    assert verdict.admitted > 2 * N
    assert verdict.denied > N


@pytest.mark.parametrize("algorithm", WINDOWS)
def test_the_most_over_and_the_most_under_are_counted(algorithm: AlgorithmName) -> None:
    rule = rule_of(algorithm)
    lenient = judge(rule_of(algorithm, N - 3), history(rule, lambda _, fits: fits))
    assert (lenient.over, lenient.under) == (3, 0)
    strict = judge(rule_of(algorithm, N + 3), history(rule, lambda _, fits: fits))
    assert (strict.over, strict.under) == (0, 3)
    assert strict.wrong > 3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_single_wrong_denial_is_found(algorithm: AlgorithmName) -> None:
    rule = rule_of(algorithm)
    wrong = iter([False, False, False])
    verdict = judge(rule, history(rule, lambda _, fits: fits and next(wrong, True)))
    assert verdict.wrong == 3
    assert verdict.under == N


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_who_admits_everything_is_over_by_what_came(algorithm: AlgorithmName) -> None:
    rule = rule_of(algorithm)
    at = 10 * SECOND_US
    crowd = [Exchange(at, at + 10, allowed=True)] * (N + 7)
    assert judge(rule, crowd).over == 7


def test_a_window_is_not_blamed_for_what_may_belong_to_the_next() -> None:
    rule, edge = rule_of("fixed_window"), 11 * SECOND_US
    sure = [Exchange(edge - 50, edge - 40, allowed=True)] * N
    doubtful = [Exchange(edge - 5, edge + 5, allowed=True)]
    denied = [Exchange(edge - 2, edge - 1, allowed=False)]
    assert judge(rule, sure + doubtful + denied).over == 0
    assert judge(rule, sure + denied).wrong == 0
    assert judge(rule, [*sure, Exchange(edge + 1, edge + 2, allowed=False)]).under == N


def test_nothing_asked_is_nothing_wrong() -> None:
    for algorithm in ALGORITHMS:
        assert judge(rule_of(algorithm), []).over == 0


def test_a_bucket_is_over_by_what_passed_above_its_rate() -> None:
    rule = rule_of("token_bucket")
    every_10_ms = [Exchange(at * 10_000, at * 10_000, allowed=True) for at in range(100)]
    assert judge(rule, every_10_ms).over == 100 - N - 19, "0.99 s drain 19 whole units"

"""The simulator counts as the oracle does, and finds the bounds of a mode where they are."""

from dataclasses import replace
from random import Random

import pytest

from benchmarks.accuracy.counters import counter
from benchmarks.accuracy.judge import judge
from benchmarks.accuracy.modes import node_of
from benchmarks.accuracy.policy import MODES
from benchmarks.accuracy.rule import SECOND_US, Rule
from benchmarks.accuracy.simulator import simulate
from benchmarks.accuracy.traffic import SHAPES, Course, arrivals
from tests.oracle.model import AlgorithmName, Op
from tests.oracle.request import Oracle

ALGORITHMS: list[AlgorithmName] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "token_bucket",
]
SHARED = [name for name in ALGORITHMS if name != "sliding_log"]
NODES = 5


def rule_of(algorithm: AlgorithmName, n: int = 1_000) -> Rule:
    return Rule(algorithm, n, SECOND_US)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_its_counters_are_those_of_the_oracle(algorithm: AlgorithmName) -> None:
    rng, oracle, now = Random(3), Oracle(), 5 * SECOND_US
    rule = rule_of(algorithm, 30)
    found = counter(rule)
    op = Op("k", algorithm, rule.n, rule.period_us, rule.n)
    for _ in range(2_000):
        now += rng.choice([0, 1, 7_000, 40_000, 40_000, rule.period_us])
        cost = rng.randint(1, 3)
        (outcome,) = oracle.decide(now, [replace(op, cost=cost)])
        fits = found.used(now) + cost <= rule.n
        assert fits == outcome.fits
        if fits:
            found.charge(now, cost, now)
        twin = found.copy()
        twin.charge(now, 1, now)
        assert found.used(now) == rule.n - outcome.remaining, "a copy is one apart"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exact_nodes_are_exact_in_any_traffic(algorithm: AlgorithmName, shape: str) -> None:
    rule = rule_of(algorithm)
    due = arrivals(shape, Course(rule, NODES, periods=2.5))
    world = simulate(rule, NODES, node_of(MODES["exact"]), due)
    assert len(world.seen) == len(due)
    verdict = judge(rule, world.seen)
    assert (verdict.over, verdict.under) == (0, 0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", SHARED)
def test_local_nodes_keep_to_their_share_in_any_traffic(
    algorithm: AlgorithmName, shape: str
) -> None:
    rule = rule_of(algorithm)
    due = arrivals(shape, Course(rule, NODES, periods=2.5))
    world = simulate(rule, NODES, node_of(MODES["local"]), due)
    assert len(world.seen) == len(due)
    verdict = judge(rule, world.seen)
    assert verdict.over <= 10
    assert verdict.under == 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("algorithm", SHARED)
def test_local_nodes_keep_to_their_share_in_random_traffic(
    algorithm: AlgorithmName, seed: int
) -> None:
    nodes = (2, 4, 8)[seed % 3]
    rule = Rule(algorithm, 2_000, (SECOND_US, 5 * SECOND_US)[seed % 2])
    due = arrivals("mixed", Course(rule, nodes, periods=2.5, seed=seed))
    verdict = judge(rule, simulate(rule, nodes, node_of(MODES["local"]), due).seen)
    assert verdict.over <= 20
    assert verdict.under == 0


def test_a_late_telling_fills_the_time_since_then_alone() -> None:
    rule = Rule("token_bucket", 1_000, SECOND_US)
    found = counter(rule)
    found.charge(5 * SECOND_US, 10, 5 * SECOND_US)
    found.charge(5 * SECOND_US, 7, 5 * SECOND_US - 4_000)
    assert found.used(5 * SECOND_US) == 10 + 7 - 4
    found.charge(5 * SECOND_US, 7, 5 * SECOND_US - 9_000)
    assert found.used(5 * SECOND_US) == 10 + 7 - 4 + 7 - 5


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm", SHARED)
def test_sampled_nodes_hold_twice_their_number_at_most_in_any_traffic(
    algorithm: AlgorithmName, shape: str
) -> None:
    rule, mode = rule_of(algorithm), MODES["sampled"]
    due = arrivals(shape, Course(rule, NODES, periods=2.5))
    world = simulate(rule, NODES, node_of(mode), due)
    assert len(world.seen) == len(due)
    verdict = judge(rule, world.seen)
    assert verdict.over <= 2 * mode.parts * NODES
    assert verdict.under == 0


def test_a_share_that_is_ten_times_as_large_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.accuracy.modes.SHARE", 0.1)
    rule = rule_of("fixed_window")
    due = arrivals("edge", Course(rule, NODES, periods=2.5))
    verdict = judge(rule, simulate(rule, NODES, node_of(MODES["local"]), due).seen)
    assert 10 < verdict.over <= 100
    assert verdict.under == 0


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_log"])
def test_shards_are_exact_together(algorithm: AlgorithmName) -> None:
    rule = rule_of(algorithm, 1_003)
    for shape in SHAPES:
        due = arrivals(shape, Course(rule, NODES, periods=2.5))
        world = simulate(rule, NODES, node_of(MODES["sharded"]), due, MODES["sharded"].parts)
        verdict = judge(rule, world.seen)
        assert (verdict.over, verdict.under) == (0, 0), shape
        assert shape == "0.5x" or verdict.denied

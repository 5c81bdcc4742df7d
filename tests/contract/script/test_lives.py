"""Keys in a real store: how long they live, and what heals one that lost its expiry."""

import pytest

from tests.contract.script.codec import STRETCH, Failure, Script
from tests.oracle.histories import ALGORITHMS
from tests.oracle.model import SECOND, AlgorithmName, Op, Outcome

START = 1_764_600_000 * SECOND
TEN = 10 * SECOND


def charge(script: Script, op: Op, at_s: float) -> Outcome:
    (((outcome),),) = script.decide([[op]], START + int(at_s * SECOND))
    assert not isinstance(outcome, Failure)
    return outcome


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_b01_a_key_that_lost_its_expiry_resets_all_the_same(
    script: Script, algorithm: AlgorithmName
) -> None:
    op = Op("k", algorithm, 3, TEN, 3)
    for _ in range(3):
        assert charge(script, op, 0).fits
    script.client.persist("k")
    after = 21 if algorithm.startswith("sliding_") and algorithm != "sliding_log" else 11
    outcome = charge(script, op, after)
    assert outcome.fits
    assert outcome.remaining == 2
    assert script.client.pttl("k") > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("action", ["charge", "peek"])
@pytest.mark.parametrize("at_s", [1, 60])
def test_b01_even_a_denial_or_a_peek_gives_a_lost_expiry_back(
    script: Script, algorithm: AlgorithmName, action: str, at_s: int
) -> None:
    charge(script, Op("k", algorithm, 3, TEN, 3, cost=3), 0)
    script.client.persist("k")
    value = script.client.dump("k")
    look = Op("k", algorithm, 3, TEN, 3, "peek" if action == "peek" else "charge", cost=4)
    reset = charge(script, look, at_s).reset_us
    assert (reset + SECOND) // 1000 * STRETCH >= script.client.pttl("k") > 0
    assert script.client.dump("k") == value


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_look_creates_nothing_and_extends_nothing(
    script: Script, algorithm: AlgorithmName
) -> None:
    op = Op("k", algorithm, 3, TEN, 3)
    look = Op("k", algorithm, 3, TEN, 3, cost=0)
    refund = Op("k", algorithm, 3, TEN, 3, "refund")
    assert charge(script, look, 0).remaining == 3
    assert charge(script, refund, 0).remaining == 3
    assert script.client.dbsize() == 0
    charge(script, op, 0)
    script.client.pexpire("k", 777_000)
    assert charge(script, look, 1).remaining < 3
    assert script.client.pttl("k") <= 777_000


@pytest.mark.parametrize("cost", [1, 33])
def test_b05_the_first_charge_sets_the_life_whatever_it_costs(script: Script, cost: int) -> None:
    look = Op("k", "fixed_window", 1000, TEN, 1000, cost=0)
    charge(script, look, 0)
    charge(script, Op("k", "fixed_window", 1000, TEN, 1000, cost=cost), 0)
    assert script.client.pttl("k") > 0
    assert charge(script, look, 11).remaining == 1000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_as_shipped_the_life_is_the_reset_and_a_second(
    script: Script, algorithm: AlgorithmName
) -> None:
    (((outcome),),) = script.decide([[Op("k", algorithm, 3, 3600 * SECOND, 3)]])
    assert isinstance(outcome, Outcome)
    assert outcome.fits
    expected_ms = -(-(outcome.reset_us + SECOND) // 1000)
    assert expected_ms - 5000 < script.client.pttl("k") <= expected_ms


def test_as_shipped_the_clock_is_that_of_the_store(script: Script) -> None:
    period = 3600 * SECOND
    (((outcome),),) = script.decide([[Op("k", "fixed_window", 3, period, 3)]])
    seconds, micros = script.client.time()
    assert isinstance(outcome, Outcome)
    ends_in = period - (seconds * SECOND + micros) % period
    assert 0 <= (outcome.reset_us - ends_in) % period < 5 * SECOND


def test_a_full_refund_of_a_log_leaves_no_key(script: Script) -> None:
    charge(script, Op("k", "sliding_log", 5, TEN, 5, cost=4), 0)
    assert charge(script, Op("k", "sliding_log", 5, TEN, 5, "refund", 9), 1).remaining == 5
    assert script.client.dbsize() == 0


def test_a_log_holds_one_element_for_each_time_and_drops_what_left(script: Script) -> None:
    for tick in range(300):
        for _ in range(2):
            assert charge(script, Op("k", "sliding_log", 100, TEN, 100), tick / 4).fits
    assert script.client.llen("k") == 1 + 40

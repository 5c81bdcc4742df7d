"""The accountant finds what it is there to find: else the suite would hold whatever happened."""

from dataclasses import replace

import pytest

from tests.chaos.account import Account, Counter, Run, account
from tests.chaos.keys import WINDOW_S, Key, Sample

EARLY = Key("t", "early", 0)
WINDOW = Key("w", "window", 0)
START = 1_000.0 * WINDOW_S


def samples(count: int, allowed: bool = True, after: float = 0.0, **more: object) -> list[Sample]:
    """Requests of one key, a thousandth of a second apart."""
    times = [START + after + at / 1000 for at in range(count)]
    made = [Sample(0, time, time + 0.0005, allowed) for time in times]
    return [replace(sample, **more) for sample in made]  # type: ignore[arg-type]


def drawn(key: Key, of: list[Sample], stored: int | None = None, **more: object) -> Account:
    """The account of a run of one key."""
    held = [] if stored is None else [Counter(stored, (0,))]
    run = Run([key], of, held, {}, START, START)
    return account(replace(run, **more))  # type: ignore[arg-type]


def test_an_exact_run_is_held_against_nobody() -> None:
    of = samples(EARLY.limit) + samples(5, allowed=False, after=1)
    drawn_up = drawn(EARLY, of, EARLY.limit)
    assert (drawn_up.over, drawn_up.under, drawn_up.twice, drawn_up.lost) == (0, 0, 0, 0)
    assert drawn_up.normal_s == pytest.approx(0.0005)


def test_what_is_admitted_beyond_a_limit_is_over() -> None:
    assert drawn(EARLY, samples(EARLY.limit + 3)).over == 3


def test_what_on_store_failure_lets_pass_is_over_in_all_alone() -> None:
    of = samples(EARLY.limit) + samples(4, after=1, degraded=True)
    assert (drawn(EARLY, of).over, drawn(EARLY, of).over_in_all) == (0, 4)


def test_windows_are_counted_each_for_itself() -> None:
    of = samples(WINDOW.limit) + samples(WINDOW.limit + 2, after=WINDOW_S)
    assert drawn(WINDOW, of).over == 2


def test_a_denial_with_room_left_is_under() -> None:
    of = samples(EARLY.limit - 1) + samples(1, allowed=False, after=1)
    assert drawn(EARLY, of).under == 1
    later = samples(WINDOW.limit) + samples(1, allowed=False, after=WINDOW_S)
    assert drawn(WINDOW, later).under == 1


def test_a_denial_that_an_unknown_charge_explains_is_not_under() -> None:
    of = samples(EARLY.limit - 1) + samples(1, after=1, degraded=True)
    assert drawn(EARLY, of + samples(1, allowed=False, after=2)).under == 0
    assert drawn(EARLY, of + samples(1, allowed=False, after=0.5)).under == 1, "it came later"


def test_a_charge_that_nothing_explains_is_twice() -> None:
    assert drawn(EARLY, samples(10), 11).twice == 1
    answered = samples(10) + samples(1, after=1, degraded=True)
    assert drawn(EARLY, answered, 11, failed={"timeout": 1}).twice == 0
    assert drawn(EARLY, answered, 11, failed={"breaker_open": 1}).twice == 0, "it is charged later"
    assert drawn(EARLY, answered, 11, failed=None).twice == 0


def test_an_attempt_at_a_node_that_died_may_have_been_charged() -> None:
    assert drawn(EARLY, samples(10, attempts=2), 20).twice == 0
    assert drawn(EARLY, samples(10, attempts=2), 21).twice == 1


def test_what_the_store_no_longer_holds_is_lost() -> None:
    assert drawn(EARLY, samples(10), 7).lost == 3


def test_it_is_normal_once_every_key_has_an_exact_answer() -> None:
    of = samples(3, degraded=True) + samples(1, after=0.25)
    assert drawn(EARLY, of).normal_s == pytest.approx(0.2505)
    assert drawn(EARLY, samples(3, degraded=True)).normal_s is None


def test_a_load_that_stood_still_is_seen() -> None:
    assert drawn(EARLY, samples(3) + samples(1, after=0.9)).away_s == pytest.approx(0.898)

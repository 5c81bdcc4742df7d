"""The figures that benchmarks draw from turns: pairs, ratios, growth."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.harness import Figures, paired_ratio
from benchmarks.soak import growth
from benchmarks.store_death import Seen
from benchmarks.turns import Load, System, VoidError, ratio


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host of the machine that runs this is nobody's business here."""
    monkeypatch.setattr(harness, "stolen_seconds", lambda: 0.0)


def _turns(costs: list[float], order: list[str], name: str) -> Callable[[], Figures]:
    left = iter(costs)

    def turn() -> Figures:
        order.append(name)
        return {"server_cpu_us": next(left)}

    return turn


def test_pairs_are_interleaved_and_compared_one_by_one() -> None:
    order: list[str] = []
    # The machine becomes four times as slow; ours stays at 1.25 times the cost of the other.
    slow = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    ours = _turns([1.25 * cost for cost in slow], order, "a")
    paired = paired_ratio({"on": ours, "off": _turns(slow, order, "b")})
    assert (paired.lower, paired.median, paired.upper) == pytest.approx((0.8, 0.8, 0.8))
    assert "".join(order) == "abba" * 3 + "ab"
    assert paired.figures["off"]["server_cpu_us"] == 2.5
    assert "7 pairs" in paired.note


def _stolen(shares: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair lasts for a second, of which its share is the host's."""
    seconds = accumulate([0.0, *(part for share in shares for part in (share, 0.0))])
    monkeypatch.setattr(harness, "stolen_seconds", lambda: next(seconds))
    clock = iter(range(4 * len(shares)))
    halves = SimpleNamespace(perf_counter=lambda: (next(clock) + 1) // 2)
    monkeypatch.setattr(harness, "time", halves)


def test_pairs_that_the_host_disturbed_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _stolen([0.0, 0.3, *[0.0] * 6], monkeypatch)
    ours = _turns([1.0, 9.0, *[1.0] * 6], [], "a")
    paired = paired_ratio({"on": ours, "off": _turns([1.0] * 8, [], "b")})
    assert (paired.lower, paired.pairs, paired.made, paired.away) == (1.0, 7, 8, 0.0)
    assert "the quietest of 8" in paired.note


def test_on_a_machine_that_is_never_quiet_the_quietest_pairs_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _stolen([0.25] * 14 + [0.125] * 7, monkeypatch)
    ours = _turns([9.0] * 14 + [1.0] * 7, [], "a")
    paired = paired_ratio({"on": ours, "off": _turns([1.0] * 21, [], "b")})
    assert (paired.lower, paired.upper, paired.made) == (1.0, 1.0, 21)
    assert "cores were away for 12.5%" in paired.note


def test_fewer_than_seven_pairs_are_refused() -> None:
    turn = _turns([], [], "a")
    with pytest.raises(ValueError, match="7 pairs"):
        paired_ratio({"on": turn, "off": turn}, pairs=6)


@pytest.mark.parametrize(
    ("server", "load", "is_of_rates"),
    [(0.95, 0.4, True), (0.9, 0.9, True), (0.89, 0.4, False), (0.95, 0.97, False)],
)
def test_rates_count_where_both_servers_set_the_pace(
    server: float, load: float, is_of_rates: bool
) -> None:
    ours = {"rate": 300.0, "server_cpu_us": 2.0, "server_core": server, "load_core": load}
    other = {"rate": 100.0, "server_cpu_us": 8.0, "server_core": 1.0, "load_core": 0.1}
    taken = ratio({"ours": ours, "other": other}, "ours", "other")
    assert taken.value == (3.0 if is_of_rates else 4.0)
    assert (taken.note is None) == is_of_rates


def test_growth_leaves_the_first_tenth_out() -> None:
    assert growth([10, 50, *[100] * 18]) == 1.0
    assert growth([100] * 18 + [106, 106]) == pytest.approx(1.06)


def test_a_generator_stays_awake_only_where_that_is_said() -> None:
    asleep = Load(seconds=1.0, warmup=0.0, connections=1, rate=5)
    assert "--awake" not in asleep.arguments
    assert replace(asleep, is_awake=True).arguments == [*asleep.arguments, "--awake"]


@pytest.mark.parametrize(
    ("seconds", "is_late", "why"),
    [
        (10, False, "10 of 60 seconds were undisturbed"),
        (60, True, "the generator was late: p99 500 us, p99.9 600 us"),
    ],
)
def test_a_turn_away_from_its_cores_is_void_only_where_times_count(
    monkeypatch: pytest.MonkeyPatch, seconds: int, is_late: bool, why: str
) -> None:
    late = {"is_late": is_late, "p99_us": 500, "p999_us": 600}
    quiet = {"seconds": seconds, "of": 60}
    report: Any = {"is_void": False, "errors": {}, "errors_at_us": None}
    report |= {"lateness": late, "undisturbed": quiet}
    monkeypatch.setattr(System, "run", lambda *_: report)
    server: Any = SimpleNamespace(name="ours")
    system = System(server, [])
    timed = Load(seconds=60.0, warmup=0.0, connections=1, rate=5)
    with pytest.raises(VoidError, match=why):
        system.report(timed)
    assert system.report(replace(timed, is_timed=False)) is report


def test_an_answer_made_without_the_store_is_no_failed_request() -> None:
    report: Any = {"errors": {"degraded": 5, "HTTP 500": 2}}
    probe: Any = SimpleNamespace(errors={"no answer": 1})
    assert Seen(report, probe, back_s=0.0).failed == 3

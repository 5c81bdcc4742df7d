"""The figures that benchmarks draw from turns: pairs, ratios, growth."""

from collections.abc import Callable

import pytest

from benchmarks.harness import Figures, paired_ratio
from benchmarks.soak import growth
from benchmarks.turns import ratio


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

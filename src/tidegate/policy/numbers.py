"""The numbers in force: a limit's own, then what a plan and an override replace of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from tidegate.policy.document import Algorithm, Preset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.policy.rates import Rate, Rates


class Layer(Protocol):
    """A limit, an entry of a plan, or an override."""

    @property
    def rates(self) -> Rates | None:
        """What is written as rate or quota."""

    @property
    def burst(self) -> int | None:
        """What is written as burst."""

    @property
    def preset(self) -> Preset | None:
        """What is written as preset."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """N in each period, and the capacity; N = 0 blocks."""

    n: int
    period_s: int
    burst: int


def rows_of(rates: Rates) -> int:
    """How many counters a limit of these rates has for each combination of values."""
    return max(1, len(rates.items))


def fits_rows(rates: Rates, base: Rates) -> bool:
    """Whether these rates can stand in for those of the limit, counter by counter."""
    return rates.is_unlimited or rates.is_blocked or len(rates.items) == rows_of(base)


def resolve(algorithm: Algorithm, layers: Sequence[Layer]) -> tuple[Numbers | None, ...]:
    """The numbers of each counter of a limit; `None` is unlimited.

    A rate without burst scales the burst that is written by the same factor, rounded up; a preset
    is taken again of the new N.

    Args:
        algorithm: Of the limit.
        layers: The limit, then what replaces parts of it; later ones win.
    """
    base = layers[0].rates
    rates = in_force(layers)
    if base is None or rates is None:
        raise ValueError("a limit has a rate")
    rows = rows_of(base)
    if rates.is_unlimited:
        return (None,) * rows
    items = rates.items * rows if rates.is_blocked and len(rates.items) < rows else rates.items
    return tuple(
        Numbers(rate.n, rate.period_s, _burst(algorithm, rate, layers))
        for rate in _in_order(items, base)
    )


def in_force(layers: Sequence[Layer]) -> Rates | None:
    """The rate or quota that the last of the layers leaves."""
    return next((layer.rates for layer in reversed(layers) if layer.rates is not None), None)


def of_preset(preset: Preset, n: int) -> int:
    """The burst that a preset names: rounded up, at least 1."""
    size = {
        Preset.STRICT: -(-n // 5),
        Preset.STANDARD: n,
        Preset.GENEROUS: 2 * n,
    }[preset]
    return max(1, size)


def _in_order(items: tuple[Rate, ...], base: Rates) -> tuple[Rate, ...]:
    """The rates in the order of the limit's own, where their periods are the same."""
    order = [rate.period_s for rate in base.items]
    if len(order) > 1 and sorted(order) == sorted(rate.period_s for rate in items):
        return tuple(sorted(items, key=lambda rate: order.index(rate.period_s)))
    return items


def _burst(algorithm: Algorithm, rate: Rate, layers: Sequence[Layer]) -> int:
    if algorithm.is_window or rate.unit or rate.n == 0:
        return rate.n
    if rate.burst is not None:
        return rate.burst
    for last in range(len(layers) - 1, -1, -1):
        layer = layers[last]
        if layer.preset is not None:
            return of_preset(layer.preset, rate.n)
        if layer.burst is not None:
            return _scaled(layer.burst, in_force(layers[: last + 1]), rate)
    return rate.n


def _scaled(burst: int, written_at: Rates | None, rate: Rate) -> int:
    if written_at is None or len(written_at.items) != 1 or written_at.is_blocked:
        return burst
    old = written_at.items[0]
    factor = Fraction(rate.n * old.period_s, rate.period_s * old.n)
    return max(1, -(-burst * factor.numerator // factor.denominator))

"""Rules about rate, burst and preset, wherever they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.policy.consistency import LEAST_SAMPLED
from tidegate.policy.document import Algorithm, Limit
from tidegate.policy.numbers import Layer, in_force, resolve
from tidegate.policy.problems import Finding, Path, Severity
from tidegate.policy.units import LOG_ENTRY_BYTES, MANY_LOG_ENTRIES, MAX_COUNT, MAX_LOG_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate.policy.rates import Rates


def check_sizes(limit: Limit, layers: Sequence[Layer], path: Path) -> Iterator[Finding]:
    """Whether rate, burst and preset of one place go together with what they build on.

    Args:
        limit: The limit that the numbers are for.
        layers: What is in force there, from the limit to what is written at `path`.
        path: Where the last layer is written.
    """
    written, algorithm = layers[-1], limit.algorithm
    rates = in_force(layers)
    if rates is None or rates.is_stand_in:
        return
    sizes = {"burst": written.burst, "preset": written.preset}
    named = [field for field, value in sizes.items() if value is not None]
    if len(named) == 2:
        hint = "keep one: a preset is a name for a burst"
        yield Finding((*path, "preset"), "preset and burst together", hint, is_about_key=True)
    for field in named:
        message, hint = _misplaced(field, rates, algorithm)
        if message:
            yield Finding((*path, field), message, hint, is_about_key=True)
    amount = "quota" if rates.is_quota else "rate"
    field = amount if written.rates is not None else named[0] if named else ""
    if algorithm is Algorithm.SLIDING_LOG and written.rates is not None:
        yield from _check_log(rates, (*path, "rate"))
    if len(named) == 2:
        return
    bursts = [numbers.burst for numbers in resolve(algorithm, layers) if numbers is not None]
    if any(burst > MAX_COUNT for burst in bursts):
        message = "the burst that follows from this is 2^53 or more"
        yield Finding((*path, field), message, "write a smaller rate or burst")
    if field and not rates.is_quota:
        yield from _check_sampled(limit, bursts, (*path, named[0] if named else field))
    if written.rates is not None:
        yield from _check_parts(limit, rates, (*path, amount))


def _check_parts(limit: Limit, rates: Rates, path: Path) -> Iterator[Finding]:
    """Whether each counter of a split limit has a unit at least."""
    parts = limit.consistency.parts if limit.consistency.mode == "sharded" else 0
    least = min((rate.n for rate in rates.items if rate.n > 0), default=parts)
    if least < parts:
        message = f"{least} in {parts} parts (consistency: {limit.consistency}): some have none"
        hint = f"write {parts} or more" + (f", or {{sharded: {least}}}" if least > 1 else "")
        yield Finding(path, message, hint)


def _misplaced(field: str, rates: Rates, algorithm: Algorithm) -> tuple[str, str]:
    if rates.is_quota:
        return f"{field} has no meaning for a quota, which counts calendar periods", "remove it"
    if algorithm.is_window:
        hint = "remove it, or use algorithm: token_bucket"
        return f"{field} has no meaning for {algorithm.value}, which counts in windows", hint
    if rates.is_blocked:
        return f"{field} with a rate of 0, which blocks", "remove it"
    if rates.is_unlimited:
        return f"{field} with rate: unlimited", "remove it"
    if field == "burst" and len(rates.items) > 1:
        return "burst with several rates: it is not clear of which", "make a limit of each rate"
    return "", ""


def _check_sampled(limit: Limit, bursts: Sequence[int], path: Path) -> Iterator[Finding]:
    """Whether what nodes hold unasked is small beside the limit; one that is blocked has none."""
    if limit.consistency.mode != "sampled":
        return
    parts = limit.consistency.parts
    least = LEAST_SAMPLED * (parts - 1)
    small = min((burst for burst in bursts if burst > 0), default=least)
    if small < least:
        message = f"{small:,} is less than the {least:,} that {limit.consistency} needs"
        most = small // LEAST_SAMPLED + 1
        hint = f"write {{sampled: {most}}}" if most > 1 else "write local"
        yield Finding(path, message, hint)


def _check_log(rates: Rates, path: Path) -> Iterator[Finding]:
    most = max((rate.n for rate in rates.items), default=0)
    if most > MAX_LOG_ENTRIES:
        message = f"sliding_log remembers each request, at most {MAX_LOG_ENTRIES:,}, not {most:,}"
        yield Finding(path, message, "use sliding_window, which keeps two numbers")
    elif most > MANY_LOG_ENTRIES:
        size = most * LOG_ENTRY_BYTES
        message = f"sliding_log takes up to {size:,} bytes for each counter"
        hint = "sliding_window keeps two numbers instead"
        yield Finding(path, message, hint, Severity.WARNING)

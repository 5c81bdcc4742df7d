"""The words of the measurement: a limit, one question with its answer, when a moment is."""

from dataclasses import dataclass
from typing import NamedTuple

from tests.oracle.model import AlgorithmName

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit: `n` requests per `period_us`, by an algorithm. A bucket holds `n` as well."""

    algorithm: AlgorithmName
    n: int
    period_us: int

    def window(self, at_us: int) -> int:
        """The number of the window that a moment lies in."""
        return at_us // self.period_us


class Exchange(NamedTuple):
    """A question of cost 1: it was decided at some moment from `sent_us` to `answered_us`.

    Times are microseconds of the store's clock.
    """

    sent_us: int
    answered_us: int
    allowed: bool

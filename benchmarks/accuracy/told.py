"""What a simulated node knows beside its mirror: what it has not told, how the clocks differ."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

from benchmarks.accuracy.rule import Rule

MOST = 4
"""Blocks that are told apart."""
DRIFT = 1_000
"""Clocks part by such a part of the time at most."""


@dataclass(slots=True)
class Taken:
    """Units by when they count from, oldest first: the start of their window; of a bucket when a
    stretch of time began in which they alone kept it busy."""

    rule: Rule
    blocks: list[tuple[int, int]] = field(default_factory=list)

    @property
    def units(self) -> int:
        """All of them."""
        return sum(units for _, units in self.blocks)

    def add(self, at: int, units: int = 1) -> None:
        """So many more came then."""
        is_bucket = self.rule.algorithm == "token_bucket"
        since = at if is_bucket else at - at % self.rule.period_us
        if self.blocks:
            last, before = self.blocks[-1]
            if since <= last or (is_bucket and self._idle(last, before, since) <= 0):
                self.blocks[-1] = last, before + units
                return
        self.blocks.append((since, units))
        if len(self.blocks) > MOST:
            self._join()

    def take(self) -> Self:
        """Everything; nothing is left here."""
        taken = replace(self)
        self.blocks = []
        return taken

    def _join(self) -> None:
        pairs = [(*one, later) for one, (later, _) in pairwise(self.blocks)]
        at = min(range(len(pairs)), key=lambda at: self._idle(*pairs[at]))
        since, units = self.blocks[at]
        self.blocks[at : at + 2] = [(since, units + self.blocks[at + 1][1])]

    def _idle(self, since: int, units: int, later: int) -> int:
        return self.rule.n * (later - since) - units * self.rule.period_us


@dataclass(frozen=True, slots=True)
class Ahead:
    """The store's clock less the node's, at least and at most, as several answers bound it."""

    least: int = 0
    most: int = 0
    heard: int | None = None

    def hear(self, store: int, sent: int, now: int) -> "Ahead":
        """With one more answer, of the store's time, to a question of that time."""
        new = Ahead(store - now, store - sent, now)
        if self.heard is None:
            return new
        drift = (now - self.heard) // DRIFT + 1
        least, most = max(new.least, self.least - drift), min(new.most, self.most + drift)
        return new if least > most else Ahead(least, most, now)

    def times(self, now: int) -> tuple[int, int]:
        """The store's time: the earliest and the latest that it may be."""
        return now + self.least, now + self.most

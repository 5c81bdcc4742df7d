"""A bucket of which requests are told some time after they came."""

from bisect import insort
from dataclasses import dataclass, field


@dataclass(slots=True)
class LateBucket:
    """The model: all that came, in the order of time, gone through anew for each question.

    Nothing is forgotten and nothing rounded, so it holds what an exact bucket would hold, had it
    met every request when that came.
    """

    n: int
    period_us: int
    _came: list[tuple[int, int]] = field(default_factory=list)

    def land(self, since_us: int, units: int) -> None:
        """So many units came then."""
        insort(self._came, (since_us, units))

    def owed(self, now_us: int) -> int:
        """What is taken and not yet drained, in parts of 1/period of a unit."""
        owed = last = 0
        for since_us, units in self._came:
            owed = max(0, owed - self.n * (since_us - last)) + units * self.period_us
            last = since_us
        return max(0, owed - self.n * (now_us - last))

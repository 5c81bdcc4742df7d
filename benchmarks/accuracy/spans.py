"""The fullest a bucket can have been: the best span over all spans, as requests come in."""

NOTHING = -1
"""Less than any span is worth."""


class Spans:
    """Moments in the order of time; each may hold one request.

    A span begins at a moment that holds one. It is worth what its requests weigh, and the height
    of its beginning. With the weight `period` and the height `n * moment`, the best span less
    `n * now` is what a bucket owes, in parts of 1/period of a unit.
    """

    def __init__(self, moments: int) -> None:
        self._leaves = 1 << max(0, moments - 1).bit_length()
        self._sums = [0] * (2 * self._leaves)
        self._bests = [NOTHING] * (2 * self._leaves)

    def put(self, moment: int, weight: int, height: int) -> None:
        """Puts the request of a moment there."""
        sums, bests = self._sums, self._bests
        at = self._leaves + moment
        sums[at], bests[at] = weight, weight + height
        while at > 1:
            at //= 2
            left, right = 2 * at, 2 * at + 1
            sums[at] = sums[left] + sums[right]
            from_left = bests[left]
            if from_left != NOTHING:
                from_left += sums[right]
            bests[at] = max(from_left, bests[right])

    @property
    def best(self) -> int:
        """What the best span is worth; `NOTHING` where there is none."""
        return self._bests[1]

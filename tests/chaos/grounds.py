"""Where scenarios are played: a store of each kind, shared while it is good, and made anew."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.chaos.arrangement import Arrangement, Pace
from tests.chaos.scenario import Row, Scenario, ran

AWAY_S = 0.5
"""A run in which the load, which waits for nobody, stood still for so long says how the machine was
shared, and nothing of the fault: it is void, and done again."""
MOST_RUNS = 3


@dataclass
class Grounds:
    """Hands out the arrangement of one kind at a time. Use it as a context manager.

    Args:
        binary: A valkey-server.
        folder: Where files and logs lie.
        pace: How long the runs are.
    """

    binary: str
    folder: Path
    pace: Pace
    _kind: str = field(default="", init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _made: Arrangement | None = field(default=None, init=False)

    def of(self, kind: str) -> Arrangement:
        """What scenarios of a kind happen to, as it was left by the one before.

        Raises:
            LookupError: This machine lacks what it takes; says what.
        """
        if self._made is None or kind != self._kind:
            self.leave()
            arrangement = self._arranged(kind)
            self._made, self._kind = self._stack.enter_context(arrangement), kind
        return self._made

    def leave(self) -> None:
        """The next one finds a store of its own."""
        self._made = None
        self._stack.close()

    def _arranged(self, kind: str) -> Arrangement:
        if kind != "skewed":
            sentinels = kind == "sentinels"
            return Arrangement(self.binary, self.folder, self.pace, has_sentinels=sentinels)
        library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
        if library is None:
            raise LookupError("no libfaketime (tools/servers.sh)")
        # Of three masters and three replicas, the first replica; its monotonic clock stays.
        told = (f"LD_PRELOAD={library}", "FAKETIME=-5s", "DONT_FAKE_MONOTONIC=1")
        return Arrangement(self.binary, self.folder, self.pace, prefixes={3: ("env", *told)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()


def played(scenario: Scenario, grounds: Grounds) -> Row:
    """Runs a scenario, again where the machine was away; a row in any case."""
    row = scenario.without_result("void", "")
    for at in range(MOST_RUNS):
        try:
            arrangement = grounds.of(scenario.on)
        except LookupError as error:
            return scenario.without_result("skipped", str(error))
        try:
            row = ran(scenario, arrangement, f"{scenario.name}-{at}" if at else scenario.name)
        except Exception as error:
            # What it left behind is for nobody else, and the others are still to be played.
            grounds.leave()
            return scenario.without_result("broke off", repr(error))
        if scenario.spends:
            grounds.leave()
        away_s = row.account.away_s if row.account else 0.0
        if away_s < AWAY_S:
            return row
        why = f"the load stood still for {away_s:.1f} s in the last of {MOST_RUNS} runs"
        row = scenario.without_result("void", why)
    return row


def played_all(scenarios: Iterable[Scenario], grounds: Grounds) -> Iterator[Row]:
    """Each in turn."""
    for scenario in scenarios:
        yield played(scenario, grounds)

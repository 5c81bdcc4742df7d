"""A fault, what is promised of it, and the row of the table that a run of it gives."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tests.chaos.account import Account, Run, account
from tests.chaos.arrangement import RATE, Arrangement, Loaded

SLOWEST_MS = 1000.0
"""A gross bound of what the store adds to an answer: machines that run tests are busy, so that one
that needs no store may take long as well."""
NORMAL_WITHIN_S = 10.0
"""A gross bound of the way back."""


def nothing(_: Run) -> float:
    """No acknowledged charge may be lost."""
    return 0


def unreplicated(_: Run) -> float:
    """What one master of three takes in a second: far more than a replica lags behind here."""
    return RATE / 3


def all_before(run: Run) -> float:
    """Everything that was counted until the fault was over."""
    return sum(it.is_exact and it.sent <= run.ended for it in run.samples)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One fault.

    Args:
        name: Its name on the command line.
        what: What is done, in words.
        promise: What holds for it beside what holds for all, in words.
        inflict: Does it, while the load runs, and says when it ends.
        on: What it happens to: `cluster`, `skewed` (one with a replica whose clock is behind) or
            `sentinels`.
        may_lose: How many acknowledged charges may be lost, and so be admitted again.
        over_grpc: Asks over gRPC, where nodes can ask clients to leave, in place of HTTP.
        is_metered: False where a node takes its metrics with it.
        clock_steps: How often the store's clock is set.
        spends: Whether a run leaves a store that is good for no other.
        is_brief: Whether it runs with all the other tests.
    """

    name: str
    what: str
    promise: str
    inflict: Callable[[Arrangement, Loaded], None]
    on: str = "cluster"
    may_lose: Callable[[Run], float] = nothing
    over_grpc: bool = False
    is_metered: bool = True
    clock_steps: int = 0
    spends: bool = False
    is_brief: bool = True

    def without_result(self, outcome: str, why: str) -> "Row":
        """The row of a scenario that tells nothing of its fault."""
        return Row(self.name, self.what, self.promise, None, {}, [], outcome, why)


@dataclass(frozen=True, slots=True)
class Row:
    """What a run of a scenario came to, and the promises that it broke.

    Args:
        scenario: Its name.
        what: What was done.
        promise: What holds for it beside what holds for all.
        account: The numbers; None where it has no result.
        reasons: Decisions without the store, by what it did.
        broken: The promises that did not hold.
        outcome: `run`; or `void`, `skipped` or `broke off`, which are no results.
        why: Why there is none.
    """

    scenario: str
    what: str
    promise: str
    account: Account | None
    reasons: dict[str, int]
    broken: list[str]
    outcome: str = "run"
    why: str = ""

    @property
    def is_held(self) -> bool:
        """Whether there is a result, and every promise held."""
        return self.account is not None and not self.broken

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        about = {"scenario": self.scenario, "what": self.what, "promise": self.promise}
        if self.account is None:
            return {**about, "outcome": self.outcome, "why": self.why}
        numbers = {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self.account).items()
        }
        return {
            **about,
            "outcome": self.outcome,
            **numbers,
            "reasons": self.reasons,
            "held": self.is_held,
            "broken": self.broken,
        }


def ran(scenario: Scenario, arrangement: Arrangement, run_name: str) -> Row:
    """Runs it once, heals what it broke, and draws up the account."""
    try:
        with arrangement.load(run_name, scenario.over_grpc) as loaded:
            loaded.is_metered = scenario.is_metered
            loaded.clock_steps = scenario.clock_steps
            scenario.inflict(arrangement, loaded)
    finally:
        arrangement.heal()
    run = loaded.run()
    found = account(run)
    broken = _broken(found, scenario.may_lose(run))
    reasons = dict(run.failed or {})
    return Row(scenario.name, scenario.what, scenario.promise, found, reasons, broken)


def _broken(found: Account, may_lose: float) -> list[str]:
    said = {
        f"{found.errors} callers got an error": found.errors,
        f"{found.over} admitted over the limit, {may_lose:.0f} may be": found.over > may_lose,
        f"{found.under} denied with room left": found.under,
        f"{found.twice} charged without a cause": found.twice,
        f"{found.lost} charges lost, {may_lose:.0f} may be": found.lost > may_lose,
        f"the slowest answer took {found.slowest_ms:.0f} ms, {found.slowest_free_ms:.0f} without "
        "the store": found.slowest_ms - found.slowest_free_ms > SLOWEST_MS,
        "it did not become normal again": found.normal_s is None,
        f"it was normal after {found.normal_s} s": (found.normal_s or 0) > NORMAL_WITHIN_S,
    }
    return [words for words, is_so in said.items() if is_so]

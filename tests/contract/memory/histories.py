"""Random histories: policies that change, requests of all kinds, a clock that steps back.

A history follows from a seed and a length, and a shorter one is the beginning of a longer one: so
hypothesis finds the shortest that fails, and many decisions are drawn in little time.
"""

from dataclasses import dataclass, replace
from random import Random

from tests.contract.memory.expected import Rule, Verb
from tests.oracle.model import AlgorithmName

START_US = 1_760_000_000_000_000
KINDS = ("requests", "tokens")
KEYS = ("tenant", "route")
VALUES = ("", "a", "b/c", "ä")
PERIODS_S = (1, 2, 7, 60)
ALGORITHMS: tuple[AlgorithmName, ...] = (
    "token_bucket",
    "fixed_window",
    "sliding_window",
    "sliding_log",
)
VERBS: tuple[Verb, ...] = ("hit", "hit", "hit", "hit", "peek", "refund")
MAX = 2**53 - 1
LONGEST_LOG = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One request after some time."""

    dt_us: int
    verb: Verb
    descriptor: dict[str, str]
    costs: dict[str, int]


def time_between(rng: Random, period_s: int) -> int:
    """Microseconds between two requests: none, few, around a period, and sometimes back."""
    period = period_s * 1_000_000
    ways = [
        *(0, 0, 0, 1, 1_000_000, period - 1, period, period + 1, 2 * period),
        *(rng.randint(0, period // 3), rng.randint(0, period // 3), rng.randint(0, 3 * period)),
        *(-1, -999_999, -1_000_000, -1_000_001, -2_500_000, -2 * period),
    ]
    return rng.choice(ways)


def rule_of(rng: Random, at: int) -> Rule:
    """One limit of a policy."""
    algorithm = rng.choice(ALGORITHMS)
    base = Rule(
        id=f"limit-{at}",
        algorithm=algorithm,
        n=1,
        period_s=rng.choice(PERIODS_S),
        burst=1,
        is_keyed_by_period=algorithm != "token_bucket",
        shadow=rng.random() < 0.2,
        counts=rng.choice(["requests", "requests", "tokens"]),
        per=rng.choice([None, *KEYS]),
        count_denied=algorithm != "sliding_log" and rng.random() < 0.3,
    )
    return renumbered(rng, base)


def renumbered(rng: Random, rule: Rule) -> Rule:
    """The limit with other numbers, blocked and unlimited among them; a log is bounded."""
    small = [rng.randint(1, 12) for _ in range(8)]
    n = rng.choice([*small, 0, None, 1000, MAX])
    if n is not None and rule.algorithm == "sliding_log":
        n = min(n, LONGEST_LOG)
    is_bucket = rule.algorithm == "token_bucket"
    burst = min((n or 0) * rng.choice([1, 1, 2, 3]), MAX) if is_bucket else n or 0
    return replace(rule, n=n, burst=burst)


def step_of(rng: Random) -> Step:
    """One request."""
    descriptor = {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.8}
    costs = {kind: rng.choice([0, 1, 1, 1, 2, rng.randint(0, 14)]) for kind in KINDS}
    return Step(
        dt_us=time_between(rng, rng.choice(PERIODS_S)),
        verb=rng.choice(VERBS),
        descriptor=descriptor,
        costs={kind: cost for kind, cost in costs.items() if rng.random() < 0.8},
    )

"""What is measured by which words of the policy, and what is promised of each."""

from dataclasses import dataclass

from benchmarks.accuracy.rule import Rule
from tests.oracle.model import AlgorithmName
from tidegate.compiler import compile_policy

DOMAIN = "accuracy"
ALGORITHMS: tuple[AlgorithmName, ...] = (
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "token_bucket",
)
SHARE = 0.01
"""Of N: what all nodes together hold of a `local` limit."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One consistency.

    Args:
        name: What it is called in the table.
        words: What stands in the policy.
        parts: K, where it has one.
        not_of: Algorithms that it does not take.
        needs_cluster: Whether it makes sense in a Cluster alone.
    """

    name: str
    words: str
    parts: int = 1
    not_of: frozenset[AlgorithmName] = frozenset()
    needs_cluster: bool = False

    @property
    def algorithms(self) -> list[AlgorithmName]:
        """Those that it takes."""
        return [name for name in ALGORITHMS if name not in self.not_of]

    def bounds(self, n: int, nodes: int) -> tuple[int, int]:
        """What it may admit over and deny under at so many nodes, in units, of a limit of `n`."""
        if self.name in {"local", "auto"}:
            return int(SHARE * n), 0
        if self.name == "sampled":
            return 2 * self.parts * nodes, 0
        return 0, 0


MODES = {
    mode.name: mode
    for mode in (
        Mode("exact", "exact"),
        Mode("local", "local", not_of=frozenset({"sliding_log"})),
        Mode("auto", "auto", not_of=frozenset({"sliding_log"})),
        Mode(
            "sharded",
            "{sharded: 4}",
            parts=4,
            not_of=frozenset({"sliding_window", "token_bucket"}),
            needs_cluster=True,
        ),
        Mode("sampled", "{sampled: 2}", parts=2, not_of=frozenset({"sliding_log"})),
    )
}


def policy(mode: Mode, n: int, period_s: int) -> str:
    """One limit for each algorithm; each run has counters of its own."""
    lines = ["version: 1", "domains:", f"  {DOMAIN}:", "    limits:"]
    for name in mode.algorithms:
        lines += [
            f"      - id: {name}",
            f"        when: {{algorithm: {name}}}",
            "        per: [run]",
            "        missing: skip",
            f"        rate: {n} per {period_s}s",
            f"        algorithm: {name}",
            f"        consistency: {mode.words}",
        ]
    return "\n".join(lines) + "\n"


def refusal(mode: Mode, n: int = 10_000, period_s: int = 2) -> str | None:
    """Why this Tidegate does not know the mode; none where it does."""
    text = policy(mode, n, period_s)
    errors = [str(it) for it in compile_policy(text, "policy").problems if it.is_error]
    return errors[0] if errors else None


def entries(rule: Rule, run: str) -> list[tuple[str, str]]:
    """The descriptor of a run's requests."""
    return [("algorithm", rule.algorithm), ("run", run)]

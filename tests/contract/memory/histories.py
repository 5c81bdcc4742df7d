"""Random histories: policies that change, requests of all kinds, a clock that steps back."""

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.contract.memory.expected import Rule, Verb
from tests.oracle.model import AlgorithmName

START_US = 1_760_000_000_000_000
KINDS = ("requests", "tokens")
KEYS = ("tenant", "route")
VALUES = ("", "a", "b/c", "ä")
ALGORITHMS: tuple[AlgorithmName, ...] = (
    "token_bucket",
    "fixed_window",
    "sliding_window",
    "sliding_log",
)


@dataclass(frozen=True, slots=True)
class Step:
    """One request after some time; `change` draws other numbers before it."""

    dt_us: int
    verb: Verb
    descriptor: dict[str, str]
    costs: dict[str, int]
    change: int | None


def steps_back_and_forth(period_s: int) -> st.SearchStrategy[int]:
    """Microseconds between two requests: none, few, around a period, and sometimes back."""
    period = period_s * 1_000_000
    return st.one_of(
        st.sampled_from([0, 0, 1, 1_000_000, period - 1, period, period + 1, 2 * period]),
        st.integers(0, period // 3),
        st.integers(0, 3 * period),
        st.sampled_from([-1, -999_999, -1_000_000, -1_000_001, -2_500_000, -2 * period]),
    )


def numbers() -> st.SearchStrategy[tuple[int | None, int]]:
    """N, and how many times N is the burst; N may be blocked or unlimited."""
    n = st.one_of(
        st.integers(1, 12),
        st.integers(1, 12),
        st.sampled_from([0, None, 1000, 2**53 - 1]),
    )
    return st.tuples(n, st.sampled_from([1, 1, 2, 3]))


@st.composite
def rule(draw: st.DrawFn, at: int) -> Rule:
    """One limit of a policy; `numbered` gives it other numbers later."""
    algorithm = draw(st.sampled_from(ALGORITHMS))
    period_s = draw(st.sampled_from([1, 2, 7, 60]))
    base = Rule(
        id=f"limit-{at}",
        algorithm=algorithm,
        n=1,
        period_s=period_s,
        burst=1,
        is_keyed_by_period=algorithm != "token_bucket",
        shadow=draw(st.integers(0, 5)) == 0,
        counts=draw(st.sampled_from(["requests", "requests", "tokens"])),
        per=draw(st.sampled_from([None, *KEYS])),
    )
    return numbered(base, *draw(numbers()))


def numbered(base: Rule, n: int | None, times: int) -> Rule:
    """The limit with other numbers; a log is bounded, and so is a burst."""
    if n is not None and base.algorithm == "sliding_log":
        n = min(n, 1000)
    most = 2**53 - 1
    is_bucket = base.algorithm == "token_bucket"
    burst = min((n or 0) * times, most) if is_bucket else n or 0
    return Rule(
        base.id,
        base.algorithm,
        n,
        base.period_s,
        burst,
        base.is_keyed_by_period,
        base.shadow,
        base.counts,
        base.per,
    )


@st.composite
def step(draw: st.DrawFn, rules: int) -> Step:
    """One request."""
    descriptor = {key: draw(st.sampled_from(VALUES)) for key in KEYS if draw(st.integers(0, 4)) > 0}
    cost = st.one_of(st.sampled_from([0, 1, 1, 1, 2]), st.integers(0, 14))
    return Step(
        dt_us=draw(steps_back_and_forth(draw(st.sampled_from([1, 2, 7, 60])))),
        verb=draw(st.sampled_from(["hit", "hit", "hit", "hit", "peek", "refund"])),
        descriptor=descriptor,
        costs={kind: draw(cost) for kind in KINDS if draw(st.integers(0, 4)) > 0},
        change=draw(st.one_of(st.none(), st.none(), st.none(), st.integers(0, rules - 1))),
    )

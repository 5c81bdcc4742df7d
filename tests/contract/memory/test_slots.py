"""Windows in slots, from the file to the decision in memory, against the oracle."""

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.memory.test_conformance import InProcess
from tests.oracle.conformance import START_US, PlannedSubject
from tests.oracle.model import SECOND
from tests.oracle.planning import Verb

PERIODS_S = [1, 7, 60, 366 * 86_400]
VERBS: list[Verb] = ["hit", "hit", "hit", "hit", "peek", "refund"]


def policy(rng: Random, period_s: int) -> str:
    """Two limits over one period, each split somehow."""
    limits = [
        {
            "id": f"l{at}",
            "per": ["user"],
            "rate": f"{rng.choice([1, 3, 12, 2**53 - 1])} per {period_s}s",
            "algorithm": "sliding_window",
            "slots": rng.choice([2, 3, 7, 60]),
            "conservative": rng.random() < 0.5,
            "count_denied": rng.random() < 0.3,
        }
        for at in range(2)
    ]
    return json.dumps({"version": 1, "domains": {"shop": {"limits": limits}}})


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 60))
def test_slots_decide_as_the_oracle_does(seed: int, steps: int) -> None:
    rng = Random(seed)
    period_s = rng.choice(PERIODS_S)
    memory, oracle = InProcess(), PlannedSubject.of_oracle()
    now = START_US + rng.randrange(10**9)
    for step in range(steps):
        if step == 0 or rng.random() < 0.05:
            text = policy(rng, period_s)
            memory.use(text)
            oracle.use(text)
        now += rng.choice([0, 0, 1, rng.randrange(period_s * SECOND // 5), period_s * SECOND])
        now -= rng.choice([0, 0, 0, 1, SECOND, SECOND + 1])
        request = {"user": rng.choice(["ann", "bob"])}
        cost, verb = {"requests": rng.choice([0, 1, 1, 2, 3])}, rng.choice(VERBS)
        said = memory.decide(now, "shop", [request], cost, verb)
        expected = oracle.decide(now, "shop", [request], cost, verb)
        for name in ("allowed", "reason", "retry_after_us"):
            assert said[name] == expected[name], (text, now)
        for one, other in zip(said["limits"], expected["limits"], strict=True):
            assert {name: one[name] for name in other} == other, (text, now)

"""Quotas in memory, from the file to the decision, against the oracle and a clock on the wall."""

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.memory.test_conformance import InProcess
from tests.oracle.conformance import START_US, PlannedSubject
from tests.oracle.model import SECOND
from tests.oracle.planning import Verb

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Havana",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Kiritimati",
]
UNITS = {"hour": 3600, "day": 86_400, "week": 604_800, "month": 2_678_400, "year": 31_622_400}
YEARS_US = 8 * 366 * 86_400 * SECOND
# Calendars are made for ten years; nodes make them anew long before these are over.
LATEST_US = START_US + 9 * 365 * 86_400 * SECOND
VERBS: list[Verb] = ["hit", "hit", "hit", "hit", "peek", "refund"]


def policy(rng: Random, units: list[str]) -> str:
    """Limits of these units, each in some zone and with some number."""
    limits = [
        {
            "id": f"{unit}-{at}",
            "per": ["user"],
            "quota": f"{rng.choice([1, 2, 3, 7, 2**53 - 1])}/{unit}",
            "time_zone": rng.choice(ZONES),
            "count_denied": at == 2,
            "on_exceed": "shadow" if at == 1 else "reject",
        }
        for at, unit in enumerate(units)
    ]
    return json.dumps({"version": 1, "domains": {"shop": {"limits": limits}}})


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 40))
def test_quotas_follow_the_clocks_of_their_zones(seed: int, steps: int) -> None:
    rng = Random(seed)
    units = [rng.choice(list(UNITS)) for _ in range(rng.randint(1, 3))]
    memory, oracle = InProcess(), PlannedSubject.of_oracle()
    now = START_US + rng.randrange(YEARS_US) // SECOND * SECOND
    for step in range(steps):
        if step == 0 or rng.random() < 0.05:
            text = policy(rng, units)
            memory.use(text)
            oracle.use(text)
        longest = UNITS[rng.choice(units)] * SECOND
        now += rng.choice([0, 1, SECOND, -SECOND, -2 * SECOND, 1800 * SECOND, 3600 * SECOND])
        # Whole quarters of an hour, in which periods begin, or any time.
        now += rng.choice([0, 0, rng.randrange(longest), -now % (900 * SECOND)])
        if now > LATEST_US:
            return
        request = {"user": rng.choice(["ann", "bob"])}
        cost, verb = {"requests": rng.choice([0, 1, 1, 2, 3])}, rng.choice(VERBS)
        said = memory.decide(now, "shop", [request], cost, verb)
        expected = oracle.decide(now, "shop", [request], cost, verb)
        for name in ("allowed", "reason", "retry_after_us"):
            assert said[name] == expected[name], (text, now)
        for one, other in zip(said["limits"], expected["limits"], strict=True):
            assert {name: one[name] for name in other} == other, (text, now)

"""`consistency: {sharded: K}`: a counter in several slots decides as one counter does."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.oracle.model import AlgorithmName, Op, Outcome
from tests.oracle.request import Oracle
from tests.servers.cluster import ClusterServers, told
from tests.servers.native import START_US, TOKEN, Native, snapshot

HOUR_US = 3_600_000_000
MS = 1_000
ALGORITHMS: tuple[AlgorithmName, ...] = ("fixed_window", "sliding_log", "quota")
POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - id: split
        per: [tenant]
        {amount}
        consistency: {{sharded: {parts}}}
"""


def amount(algorithm: str, n: int) -> str:
    """The words of a limit of N an hour."""
    if algorithm == "quota":
        return f"quota: {n}/hour"
    return f"rate: {n}/hour\n        algorithm: {algorithm}"


def policy(algorithm: str, n: int, parts: int) -> str:
    return POLICY.format(amount=amount(algorithm, n), parts=parts)


@dataclass
class Subject:
    """A node on a Cluster, and the model of one counter beside it."""

    node: Native
    algorithm: AlgorithmName
    n: int
    tenant: str
    oracle: Oracle = field(default_factory=Oracle)
    now_us: int = START_US

    def __post_init__(self) -> None:
        self.wait(0)

    def wait(self, by_us: int) -> None:
        """Moves the clock."""
        self.now_us += by_us
        self.node.at(self.now_us - START_US)

    def ask(self, action: str, cost: int) -> dict[str, Any]:
        """What the node says."""
        body = {"domain": "shop", "descriptors": [{"tenant": self.tenant}], "cost": cost}
        path = "/v1/peek" if action == "peek" else "/v1/check"
        answer = self.node.post(
            path, {**body, "refund": True} if action == "refund" else body, TOKEN
        )
        assert answer.status == 200, answer
        assert not answer.body["degraded"], answer
        return answer.body

    def expected(self, action: str, cost: int) -> Outcome:
        """What one counter says."""
        start = self.now_us // HOUR_US * HOUR_US
        op = Op(
            key=self.tenant,
            algorithm=self.algorithm,
            n=self.n,
            period_us=HOUR_US,
            burst=self.n,
            action="peek" if action == "peek" else "refund" if action == "refund" else "charge",
            cost=cost,
            ends=(start, start + HOUR_US, start + 2 * HOUR_US),
        )
        return self.oracle.decide(self.now_us, [op])[0]

    def step(self, action: str, cost: int) -> bool:
        """Does it on both sides, and compares all that is said."""
        said, expected = self.ask(action, cost), self.expected(action, cost)
        limit = said["limits"][0]
        about = (action, cost, said, expected)
        if action != "refund":
            assert said["allowed"] == expected.fits, about
        assert limit["reset_ms"] == -(-expected.reset_us // MS), about
        if action == "peek" or not expected.fits:
            assert limit["remaining"] == expected.remaining, about
        if not expected.fits:
            wait_ms = None if expected.wait_us < 0 else -(-expected.wait_us // MS)
            if self.algorithm == "sliding_log" and cost > 1 and wait_ms is not None:
                # Never longer than it is: what frees first is known, not what frees in all.
                assert 0 < said["retry_after_ms"] <= wait_ms, about
            else:
                assert said["retry_after_ms"] == wait_ms, about
        return expected.fits


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def empty(steady: ClusterServers) -> ClusterServers:
    for server in steady.servers:
        told(server, "FLUSHALL")
    return steady


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("n", "parts"), [(5, 2), (8, 8), (23, 8), (100, 64)])
def test_the_last_units_are_admitted_also_where_no_part_holds_them(
    empty: ClusterServers, stack: ExitStack, algorithm: AlgorithmName, n: int, parts: int
) -> None:
    node = stack.enter_context(Native(policy(algorithm, n, parts), empty.url))
    for cost in {1, 2, 3, n // 2, n}:
        tenant = f"last-{algorithm}-{n}-{cost}"
        subject = Subject(node, algorithm, n, tenant)
        taken = 0
        while subject.step("charge", cost):
            subject.wait(7 * MS)
            taken += cost
        assert taken == n // cost * cost
        left = n - taken
        assert left == 0 or subject.step("charge", left)
        assert not subject.step("charge", 1)
        subject.step("charge", n + 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("seed", range(6))
def test_random_requests_one_after_another_come_to_what_one_counter_says(
    empty: ClusterServers, stack: ExitStack, algorithm: AlgorithmName, seed: int
) -> None:
    rng = Random(seed)
    parts = rng.choice([2, 3, 8, 17])
    n = rng.randint(parts, 4 * parts)
    node = stack.enter_context(Native(policy(algorithm, n, parts), empty.url))
    subject = Subject(node, algorithm, n, f"random-{algorithm}-{seed}")
    for _ in range(150):
        action = rng.choice(["charge"] * 6 + ["peek"])
        cost = rng.choice([1, 1, 1, 2, 3, rng.randint(1, n), n + 1])
        has_taken = subject.step(action, cost) and action == "charge"
        if has_taken and cost == 1 and rng.random() < 0.3:
            # Of a log the newest is given back, which is what was just taken.
            subject.step("refund", 1)
        if algorithm != "sliding_log" and rng.random() < 0.15:
            subject.step("refund", rng.randint(1, n))
        steps = [0, 0, 1, 50, rng.randint(0, 1_000_000), rng.randint(0, 4_000_000)]
        subject.wait(MS * rng.choice(steps))


def test_parts_lie_on_all_masters_and_a_reset_reaches_them_all(
    empty: ClusterServers, stack: ExitStack
) -> None:
    node = stack.enter_context(Native(policy("fixed_window", 64, 8), empty.url))
    subject = Subject(node, "fixed_window", 64, "reset")
    while subject.step("charge", 1):
        pass
    keys = [told(server, "KEYS", "*reset*") for server in empty.servers]
    assert sum(map(len, keys)) == 8
    assert all(2 <= len(some) <= 4 for some in keys), keys
    answer = node.post("/v1/reset", {"domain": "shop", "descriptors": [{"tenant": "reset"}]}, TOKEN)
    assert answer.status == 200, answer
    assert subject.ask("peek", 64)["allowed"]
    assert not any(told(server, "KEYS", "*reset*") for server in empty.servers)


def test_other_limits_of_a_request_pass_or_fail_with_it(
    empty: ClusterServers, stack: ExitStack
) -> None:
    others = """\
      - {id: other, rate: 10/hour, algorithm: fixed_window}
      - {id: count, per: [tenant], rate: 100/hour, algorithm: fixed_window, count_denied: true}
      - {id: near, rate: 1000/hour, algorithm: fixed_window, consistency: local}
"""
    node = stack.enter_context(Native(policy("fixed_window", 8, 4) + others, empty.url))

    def remaining(tenant: str) -> dict[str, int]:
        body = {"domain": "shop", "descriptors": [{"tenant": tenant}]}
        rows = node.post("/v1/peek", body, TOKEN).body["limits"]
        return {row["id"]: row["remaining"] for row in rows}

    assert node.check({"tenant": "a"}, cost=5)["allowed"], "two parts and more"
    assert remaining("a") == {"split": 3, "other": 5, "count": 95, "near": 995}
    denied = node.check({"tenant": "a"}, cost=4)
    assert (denied["allowed"], denied["limits"][denied["binding"]]["id"]) == (False, "split")
    assert remaining("a") == {"split": 3, "other": 5, "count": 91, "near": 995}
    assert node.check({"tenant": "a"}, cost=3)["allowed"]
    assert remaining("a") == {"split": 0, "other": 2, "count": 88, "near": 992}
    denied = node.check({"tenant": "b"}, cost=3)
    assert (denied["allowed"], denied["limits"][denied["binding"]]["id"]) == (False, "other")
    assert remaining("b") == {"split": 8, "other": 2, "count": 97, "near": 992}
    # Both deny, and both are named.
    rows = {row["id"]: row["allowed"] for row in node.check({"tenant": "b"}, cost=9)["limits"]}
    assert rows == {"split": False, "other": False, "count": True, "near": True}


def test_numbers_raised_and_lowered_keep_what_was_used(
    empty: ClusterServers, stack: ExitStack
) -> None:
    plans = """\
    plans: {{free: {{split: {{rate: {n}/hour}}}}}}
    tenants: {{plan: {{plan: free}}}}
"""
    base = policy("fixed_window", 8, 4)
    node = stack.enter_context(Native(base + plans.format(n=40), empty.url))
    subject = Subject(node, "fixed_window", 40, "plan")
    assert all(subject.step("charge", 1) for _ in range(30))
    for n in (20, 40, 31, 12, 38):
        node.server.load(snapshot(base + plans.format(n=n)))
        subject.n = n
        # What single parts hold beyond their new share is known to whoever looks at all.
        left = max(0, n - 30)
        assert subject.ask("peek", 1)["limits"][0]["remaining"] == left
        assert not subject.ask("check", left + 1)["allowed"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_on_one_server_nothing_is_split(
    shared_valkey: Any, stack: ExitStack, algorithm: AlgorithmName
) -> None:
    node = stack.enter_context(Native(policy(algorithm, 9, 4), shared_valkey.url))
    subject = Subject(node, algorithm, 9, f"single-{algorithm}")
    for _ in range(5):
        subject.step("charge", 2)
        subject.step("peek", 1)
    keys = told(shared_valkey, "KEYS", f"*single-{algorithm}*")
    assert len(keys) == 1, keys

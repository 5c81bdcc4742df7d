"""A policy file in this process."""

import pickle
from pathlib import Path

import pytest

from tidegate import ConfigError, Limiter

POLICY = b"""
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: search, when: {route: /search}, per: [tenant], rate: 3/h}
      - {id: tokens, per: [tenant], rate: 1000/h, counts: tokens}
      - {id: seen, per: [tenant], rate: 1/h, on_exceed: shadow}
    plans: {pro: {search: {rate: 5/h}}}
    tenants: {acme: {plan: pro}}
"""
ACME = {"tenant": "acme", "route": "/search"}
OTHER = {"tenant": "other", "route": "/search"}


def test_what_matches_is_charged() -> None:
    policy = Limiter().policy(POLICY, domain="shop")
    assert [limit.id for limit in policy.hit(ACME).limits] == ["search", "seen"]
    assert policy.hit({"tenant": "acme"}).limits[0].id == "seen"
    assert policy.hit({"nothing": "known"}).limits == ()
    assert policy.peek(ACME).limits[0].remaining == 4
    assert policy.peek(OTHER).limits[0].remaining == 3


def test_costs_by_kind() -> None:
    policy = Limiter().policy(POLICY)
    made = policy.hit({"tenant": "a"}, {"requests": 1, "tokens": 900})
    assert {limit.id: limit.remaining for limit in made.limits} == {"tokens": 100, "seen": 0}
    assert not policy.hit({"tenant": "a"}, cost={"tokens": 101})
    assert policy.hit({"tenant": "a"}, cost={"other": 5}).limits == ()


def test_several_descriptors_charge_a_counter_once() -> None:
    policy = Limiter().policy(POLICY)
    made = policy.hit([ACME, {"tenant": "acme"}, OTHER], cost=2)
    ids = [(limit.id, limit.remaining) for limit in made.limits]
    assert ids == [("search", 3), ("seen", 1), ("search", 1), ("seen", 1)]


def test_a_decision_is_given_back_whatever_happens_to_its_dict() -> None:
    policy = Limiter().policy(POLICY)
    asked = dict(OTHER)
    taken = policy.hit(asked, cost=2)
    asked["tenant"] = "changed"
    assert policy.refund(taken).limits[0].remaining == 3
    policy.hit(OTHER)
    assert policy.refund(taken).limits[0].remaining == 2
    assert policy.refund(OTHER).limits[0].remaining == 3


def test_a_shadow_limit_that_was_not_charged_gives_nothing_back() -> None:
    policy = Limiter().policy(POLICY)
    first, second = policy.hit({"tenant": "a"}), policy.hit({"tenant": "a"})
    assert (second.allowed, second.limits[0].allowed) == (True, False)
    assert policy.refund(second).limits[0].remaining == 0
    assert policy.refund(first).limits[0].remaining == 1


def test_a_reset_reaches_every_kind_of_cost() -> None:
    policy = Limiter().policy(POLICY)
    policy.hit(OTHER, cost={"requests": 3, "tokens": 1000})
    policy.reset(OTHER)
    assert policy.hit(OTHER, cost={"requests": 3, "tokens": 1000})


@pytest.mark.parametrize("descriptor", [{"tenant": b"\xff\xfe"}, {"tenant": 7}, {b"tenant": "x"}])
def test_bytes_and_numbers_are_values_too(descriptor: dict[str, str]) -> None:
    assert Limiter().policy(POLICY).hit(descriptor).limits[0].id == "seen"


@pytest.mark.parametrize(
    "asked", [None, "tenant", 7, ["tenant"], {"tenant": None}, {"tenant": 1.5}]
)
def test_what_describes_nothing_is_refused(asked: object) -> None:
    with pytest.raises(TypeError):
        Limiter().policy(POLICY).hit(asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [-1, {"requests": -1}, 2**53])
def test_a_cost_that_takes_nothing_is_refused(cost: int) -> None:
    with pytest.raises(ValueError, match="cost must"):
        Limiter().policy(POLICY).hit(ACME, cost)


def test_a_reload_keeps_what_was_counted_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_bytes(POLICY)
    policy = Limiter().policy(file)
    policy.hit(OTHER, cost=2)
    revision = policy.revision
    file.write_bytes(POLICY.replace(b"rate: 3/h", b"rate: 3/minuet"))
    with pytest.raises(ConfigError, match=r"shop\.yaml:7:\d+.*did you mean"):
        policy.reload()
    assert policy.revision == revision
    file.write_bytes(POLICY.replace(b"rate: 3/h", b"rate: 10/h"))
    policy.reload()
    assert policy.revision != revision
    assert policy.peek(OTHER).limits[0].remaining == 8


def test_the_domain_may_be_left_out_where_there_is_one() -> None:
    two = b"{version: 1, domains: {a: {limits: []}, b: {limits: []}}}"
    with pytest.raises(ConfigError, match="which domain"):
        Limiter().policy(two)
    with pytest.raises(ConfigError, match="it has a, b"):
        Limiter().policy(two, domain="c")
    assert Limiter().policy(two, domain="b").domain == "b"


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no such file"):
        Limiter().policy("/nowhere/shop.yaml")


def test_a_policy_pickles_as_its_source() -> None:
    policy = pickle.loads(pickle.dumps(Limiter().policy(POLICY)))
    assert policy.hit(ACME)

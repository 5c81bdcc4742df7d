"""Limits made in code: keys, costs, peeks, refunds, what is refused."""

import pickle
from collections.abc import Iterator

import pytest

from tidegate import ConfigError, Limiter
from tidegate.limiter import Limit

NOW = 1_760_000_000.0


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(clock: Clock) -> Iterator[Limiter]:
    with Limiter(clock=clock) as made:
        yield made


def test_a_hit_passes_until_the_limit_is_used_up_and_again_after_the_wait(
    limiter: Limiter, clock: Clock
) -> None:
    posts = limiter.limit("2/minute", id="posts")
    assert posts.hit("ada")
    assert posts.hit("ada")
    denied = posts.hit("ada")
    assert not denied
    assert (denied.reason, denied.retry_after) == ("over_limit", 30.0)
    clock.now = NOW + 29.999999
    assert not posts.hit("ada")
    clock.now = NOW + 30
    assert posts.hit("ada")


def test_several_rates_charge_all_or_nothing(limiter: Limiter) -> None:
    posts = limiter.limit("3/minute; 5/day", id="posts")
    assert posts.hit("ada", cost=3)
    assert not posts.hit("ada")
    assert [limit.remaining for limit in posts.peek("ada").limits] == [0, 2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "bc"), ("ab", "c")),
        (("a/b", "c"), ("a", "b/c")),
        (("",), ()),
        (("", "a"), ("a", "")),
        (("a",), ("a", "")),
        (("ä",), ("a\u0308",)),
        (("\x00",), ("",)),
    ],
)
def test_keys_are_compared_whole(
    limiter: Limiter, one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    limit = limiter.limit("1/minute", id="l")
    assert limit.hit(*one)
    assert limit.hit(*other)
    assert not limit.hit(*one)
    assert not limit.hit(*other)


def test_the_same_text_is_one_key_whatever_its_type(limiter: Limiter) -> None:
    limit = limiter.limit("1/minute", id="l")
    assert limit.hit("7")
    assert not limit.hit(7)
    assert not limit.hit(b"7")
    assert limit.hit(-(10**30))
    assert not limit.hit(str(-(10**30)))
    assert limit.hit("x" * 300)
    assert not limit.hit("x" * 300)
    assert limit.hit("x" * 299 + "y")


@pytest.mark.parametrize("part", [None, True, 1.5, ["a"], object()])
def test_a_part_of_another_type_is_refused(limiter: Limiter, part: object) -> None:
    limit = limiter.limit("1/minute", id="l")
    with pytest.raises(TypeError, match="key parts must be str, bytes or int, not"):
        limit.hit(part)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        limit.hit("a", "b", "c", part)  # type: ignore[arg-type]


def test_a_missing_key_is_never_one_shared_by_all(limiter: Limiter) -> None:
    with pytest.raises(TypeError, match="share one counter"):
        limiter.limit("1/minute", id="l").hit(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cost", "error"),
    [
        (-1, ValueError),
        (2**53, ValueError),
        (10**30, ValueError),
        (1.0, TypeError),
        (True, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_a_cost_is_a_whole_number_that_takes(
    limiter: Limiter, cost: object, error: type[Exception]
) -> None:
    limit = limiter.limit("5/minute", id="l")
    with pytest.raises(error, match="cost must"):
        limit.hit("a", cost=cost)  # type: ignore[arg-type]
    assert limit.peek("a").limits[0].remaining == 5


def test_a_cost_above_the_capacity_has_no_wait_and_takes_nothing(limiter: Limiter) -> None:
    limit = limiter.limit("5/minute", id="l")
    denied = limit.hit("a", cost=6)
    assert (denied.reason, denied.retry_after) == ("cost_exceeds_limit", None)
    assert limit.hit("a", cost=5)


def test_a_cost_of_zero_and_a_peek_create_nothing(limiter: Limiter) -> None:
    limit = limiter.limit("1/minute", id="l")
    assert limit.hit("a", cost=0)
    assert limit.peek("a", cost=1)
    assert not limit.peek("a", cost=2)
    assert limiter.engine.counters == 0


def test_many_hits_are_decided_in_order(limiter: Limiter) -> None:
    limit = limiter.limit("5/minute", id="l")
    made = limit.hit_many([("a", 3), (("a",), 3), ("b", 5), ("a", 2)])
    assert [bool(one) for one in made] == [True, False, True, True]
    with pytest.raises(TypeError):
        limit.hit_many([("a", 1), (None, 1)])  # type: ignore[list-item]
    assert limit.peek("a").limits[0].remaining == 0


@pytest.mark.parametrize(
    "algorithm", ["token_bucket", "fixed_window", "sliding_window", "sliding_log"]
)
def test_a_decision_is_given_back_once(limiter: Limiter, algorithm: str) -> None:
    limit = limiter.limit("5/minute", id="l", algorithm=algorithm)
    taken = limit.hit("a", "b", "c", cost=3)
    assert limit.refund(taken).limits[0].remaining == 5
    limit.hit("a", "b", "c", cost=2)
    assert limit.refund(taken).limits[0].remaining == 3


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "sliding_log"])
def test_a_late_refund_touches_no_other_window(
    limiter: Limiter, clock: Clock, algorithm: str
) -> None:
    limit = limiter.limit("5/minute", id="l", algorithm=algorithm)
    taken = limit.hit("a", cost=3)
    clock.now += 120
    limit.hit("a", cost=2)
    assert limit.refund(taken).limits[0].remaining == 3


def test_a_denied_decision_gives_nothing_back(limiter: Limiter) -> None:
    limit = limiter.limit("5/minute", id="l")
    limit.hit("a", cost=3)
    denied = limit.hit("a", cost=3)
    assert limit.refund(denied).limits[0].remaining == 2
    with pytest.raises(ConfigError, match="took nothing"):
        limit.refund(limit.peek("a"))


def test_a_refund_by_key_is_never_above_the_limit(limiter: Limiter) -> None:
    limit = limiter.limit("5/minute", id="l")
    limit.hit("a", cost=2)
    assert limit.refund("a", cost=4).limits[0].remaining == 5
    assert limit.refund("b", cost=4).limits[0].remaining == 5


def test_a_reset_forgets_one_key(limiter: Limiter) -> None:
    limit = limiter.limit("1/minute; 1/day", id="l")
    limit.hit("a")
    limit.hit("b")
    limit.reset("a")
    assert limit.hit("a")
    assert not limit.hit("b")


def test_edits_of_the_numbers_keep_what_was_counted(limiter: Limiter) -> None:
    limiter.limit("5/minute", id="l").hit("a", cost=4)
    assert limiter.limit("10/minute", id="l").peek("a").limits[0].remaining == 6
    assert limiter.limit("3/minute", id="l").peek("a").limits[0].remaining == 0
    assert limiter.limit("5/minute", id="other").peek("a").limits[0].remaining == 5


def test_the_shorthand_counts_by_algorithm_and_window(limiter: Limiter) -> None:
    assert limiter.hit("2/minute", "a", cost=2)
    assert not limiter.hit("2/minute", "a")
    assert limiter.hit("3/minute", "a")
    assert limiter.hit("2/hour", "a")
    assert limiter.hit("2/minute", "a", algorithm="fixed_window")


def test_a_blocked_and_an_unlimited_limit(limiter: Limiter) -> None:
    blocked = limiter.limit("0/minute", id="b").hit("a")
    assert (bool(blocked), blocked.reason, blocked.retry_after) == (False, "blocked", None)
    free = limiter.limit("unlimited", id="u").hit("a", cost=10**9)
    assert (bool(free), free.limits, free.binding) == (True, (), None)


@pytest.mark.parametrize(
    ("rates", "options", "message"),
    [
        ("5/minuet", {}, 'did you mean "minute"'),
        ("5/minute", {"algorithm": "fixed"}, "fixed_window"),
        ("5/minute", {"algorithm": "fixed_window", "burst": 9}, "burst"),
        ("5/minute; 9/day", {"burst": 9}, "several"),
        ("0/minute", {"burst": 9}, "burst"),
        ("1m/minute", {}, "did you mean"),
    ],
)
def test_what_cannot_be_a_limit_is_refused_at_once(
    limiter: Limiter, rates: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        limiter.limit(rates, id="l", **options)  # type: ignore[arg-type]


def test_a_limit_pickles_as_its_definition(limiter: Limiter) -> None:
    del limiter
    limit = Limiter().limit("5/minute", id="l", burst=9)
    limit.hit("a", cost=9)
    copy = pickle.loads(pickle.dumps(limit))
    assert isinstance(copy, Limit)
    assert (copy.id, copy.rates) == ("l", "5/minute")
    assert copy.peek("a").limits[0].remaining == 9


def test_a_closed_limiter_answers_no_more() -> None:
    limiter = Limiter()
    limit = limiter.limit("5/minute", id="l")
    limiter.close()
    limiter.close()
    with pytest.raises(ConfigError, match="closed"):
        limit.hit("a")
    with pytest.raises(ConfigError, match="closed"):
        limiter.limit("5/minute", id="l")


@pytest.mark.parametrize("now", [-1.0, 1e18, float("nan"), float("inf")])
def test_a_clock_that_is_none_is_refused(now: float) -> None:
    with pytest.raises(ValueError, match="clock"):
        Limiter(clock=lambda: now).limit("5/minute", id="l").hit("a")


def test_a_clock_that_raises_raises() -> None:
    def clock() -> float:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        Limiter(clock=clock).limit("5/minute", id="l").hit("a")

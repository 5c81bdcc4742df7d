"""Decisions: what they say, that nobody can change them, and their headers."""

import pytest

from tidegate import ConfigError, Decision, Limiter

NOW = 1_760_000_000.0


def _decisions() -> tuple[Decision, Decision]:
    limit = Limiter(clock=lambda: NOW).limit("5/minute; 100/day", id="posts")
    return limit.hit("ada", cost=5), limit.hit("ada")


def test_a_decision_is_truthy_when_allowed() -> None:
    allowed, denied = _decisions()
    assert allowed
    assert not denied
    assert (allowed.allowed, denied.allowed) == (True, False)


def test_as_dict_has_the_names_of_every_door() -> None:
    _, denied = _decisions()
    assert denied.as_dict() == {
        "allowed": False,
        "reason": "over_limit",
        "retry_after_ms": 12_000,
        "decision_id": denied.decision_id,
        "revision": denied.revision,
        "degraded": False,
        "binding": 0,
        "limits": [
            {
                "id": "posts",
                "allowed": False,
                "limit": 5,
                "remaining": 0,
                "reset_ms": 60_000,
                "window_ms": 60_000,
                "shadow": False,
            },
            {
                "id": "posts",
                "allowed": True,
                "limit": 100,
                "remaining": 95,
                "reset_ms": 4_320_000,
                "window_ms": 86_400_000,
                "shadow": False,
            },
        ],
    }


def test_the_id_stays_and_differs_from_others() -> None:
    allowed, denied = _decisions()
    assert allowed.decision_id == allowed.decision_id
    assert allowed.decision_id != denied.decision_id
    assert len(allowed.decision_id) == 26


def test_the_limits_are_frozen_and_compare_by_value() -> None:
    allowed, denied = _decisions()
    limit = allowed.limits[0]
    assert limit == allowed.limits[0]
    assert limit != denied.limits[0]
    with pytest.raises(AttributeError):
        limit.remaining = 9  # type: ignore[misc]
    with pytest.raises(AttributeError):
        allowed.allowed = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        Decision()
    assert (limit.window, limit.reset_after) == (60.0, 60.0)


def test_the_texts_say_who_denied_and_for_how_long() -> None:
    allowed, denied = _decisions()
    assert repr(allowed) == "<Decision allowed: posts 0 of 5 left>"
    assert repr(denied) == (
        "<Decision denied, over_limit: posts 0 of 5 left, retry after 12.000 s>"
    )
    assert repr(denied.limits[0]) == (
        '<LimitReport "posts" denied: 0 of 5 left, reset in 60.000 s>'
    )


def test_headers_are_those_of_the_profile() -> None:
    allowed, denied = _decisions()
    told = {
        "x-ratelimit-limit": "5",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "1760000060",
        "x-ratelimit-used": "5",
        "x-ratelimit-resource": "posts",
    }
    assert allowed.headers() == told
    named = {"x-tidegate-decision-id": denied.decision_id}
    assert denied.headers("github") == {**told, "retry-after": "12", **named}
    assert denied.headers("off") == {"retry-after": "12"}


def test_other_profiles_say_the_same_in_their_words() -> None:
    allowed, denied = _decisions()
    limit = '5, 5;w=60;name="posts", 100;w=86400;name="posts"'
    assert allowed.headers("draft03") == {
        "x-ratelimit-limit": limit,
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "60",
    }
    assert denied.headers("draft03") == {
        "x-ratelimit-limit": limit,
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "12",
        "retry-after": "12",
        "x-tidegate-decision-id": denied.decision_id,
    }
    told = denied.headers("ietf")
    names = ["ratelimit-policy", "ratelimit", "retry-after", "x-tidegate-decision-id"]
    assert list(told) == names
    assert told["ratelimit-policy"] == '"posts/60s";q=5;w=60, "posts/86400s";q=100;w=86400'
    assert told["ratelimit"].startswith('"posts/60s";r=0;t=12;a=0;w=12, "posts/86400s";r=95;')


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="use one of github, draft03, ietf, off"):
        _decisions()[0].headers("x")

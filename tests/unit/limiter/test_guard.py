"""Guards: a block or a function that runs only if it may."""

import pytest

from tidegate import ConfigError, Limiter, RateLimitExceeded, TidegateError


def test_a_block_runs_until_the_limit_is_used_up() -> None:
    posts = Limiter().limit("1/hour", id="posts")
    with posts.guard("ada") as decision:
        assert decision.allowed
    with pytest.raises(RateLimitExceeded) as caught, posts.guard("ada"):
        pytest.fail("must not run")
    assert not caught.value.decision
    assert not isinstance(caught.value, TidegateError)


def test_a_function_is_guarded_by_its_own_arguments() -> None:
    posts = Limiter().limit("2/hour", id="posts")

    @posts.guard(key=lambda user, **_: user, cost=2)
    def post(user: str, text: str) -> str:
        """Posts."""
        return f"{user}: {text}"

    assert post("ada", text="hello") == "ada: hello"
    assert post("bob", text="hello") == "bob: hello"
    assert (post.__name__, post.__doc__) == ("post", "Posts.")
    with pytest.raises(RateLimitExceeded):
        post("ada", text="again")


def test_a_key_function_may_give_several_parts() -> None:
    posts = Limiter().limit("1/hour", id="posts")

    @posts.guard(key=lambda user, thread: (user, thread))
    def post(user: str, thread: int) -> None:
        del user, thread

    post("ada", 1)
    post("ada", 2)
    with pytest.raises(RateLimitExceeded):
        post("ada", 1)


def test_one_key_guards_all_calls() -> None:
    posts = Limiter().limit("1/hour", id="posts")

    @posts.guard("everybody")
    def post() -> None:
        pass

    post()
    with pytest.raises(RateLimitExceeded):
        post()


def test_a_policy_guards_too() -> None:
    text = b"{version: 1, domains: {d: {limits: [{id: l, per: [user], rate: 2/h}]}}}"
    policy = Limiter().policy(text)

    @policy.guard(key=lambda user: {"user": user}, cost={"requests": 2})
    def post(user: str) -> None:
        del user

    post("ada")
    post("bob")
    with pytest.raises(RateLimitExceeded):
        post("ada")
    with pytest.raises(RateLimitExceeded), policy.guard({"user": "ada"}):
        pass


def test_what_a_guard_cannot_do_yet_is_said_at_once() -> None:
    posts = Limiter().limit("1/hour", id="posts")

    async def post() -> None:
        pass

    with pytest.raises(ConfigError, match="not supported yet"):
        posts.guard("ada")(post)
    with pytest.raises(ConfigError, match="not both"):
        posts.guard("ada", key=lambda: "ada")
    with pytest.raises(ConfigError, match="decorator"), posts.guard(key=lambda: "ada"):
        pass

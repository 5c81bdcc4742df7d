"""Many requests in one call: what they cost the store, and a bad value among them."""

from typing import TYPE_CHECKING

import pytest

from tests.contract.script.codec import Failure, Request, Script
from tests.oracle.histories import ALGORITHMS
from tests.oracle.model import SECOND, AlgorithmName, Op, Outcome

if TYPE_CHECKING:
    import redis

NOW = 1_764_600_000 * SECOND


def op(key: str, algorithm: AlgorithmName = "token_bucket", n: int = 5, cost: int = 1) -> Op:
    return Op(key, algorithm, n, 60 * SECOND, n, cost=cost)


def calls(script: Script) -> dict[str, int]:
    stats = script.client.info("commandstats")
    return {name.removeprefix("cmdstat_"): row["calls"] for name, row in stats.items()}


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window", "token_bucket"])
def test_a_hot_key_costs_one_read_and_one_write_a_call(
    script: Script, algorithm: AlgorithmName
) -> None:
    script.decide([[op("hot", algorithm)]], NOW)
    script.client.config_resetstat()
    answers = script.decide([[op("hot", algorithm, n=40)]] * 64, NOW)
    assert sum(answer[0].fits for answer in answers if isinstance(answer[0], Outcome)) == 39
    used = calls(script)
    assert used["get"] == 1
    assert used["set"] == 1


def test_a_hot_log_costs_one_read_and_one_entry_a_call(script: Script) -> None:
    script.client.config_resetstat()
    answers = script.decide([[op("hot", "sliding_log", n=40)]] * 64, NOW)
    assert sum(answer[0].fits for answer in answers if isinstance(answer[0], Outcome)) == 40
    used = calls(script)
    assert used["lrange"] == 1
    assert used["rpush"] == 1
    assert script.client.llen("hot") == 2


def test_denials_write_nothing(script: Script) -> None:
    script.decide([[op("k", n=1)]], NOW)
    script.client.config_resetstat()
    script.decide([[op("k", n=1)]] * 10, NOW)
    assert not {"set", "pexpire", "del"} & set(calls(script))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["hash", "list", "short", "foreign", "log"])
def test_a_bad_value_fails_its_own_request_alone(
    script: Script, algorithm: AlgorithmName, kind: str
) -> None:
    _spoil(script.client, kind)
    if kind in {"short", "foreign"} or algorithm != "sliding_log":
        status = {"hash": 2, "list": 2, "log": 2, "short": 3, "foreign": 3}[kind]
    else:
        status = {"hash": 2, "list": 3, "log": 3}[kind]
    if algorithm == "sliding_log" and kind in {"short", "foreign"}:
        status = 2
    before = script.client.dump("bad")
    batch: list[Request] = [
        [op("a", algorithm)],
        [op("a", algorithm), op("bad", algorithm), op("b", algorithm)],
        [op("bad", algorithm)],
        [op("a", algorithm), op("b", algorithm)],
    ]
    first, mixed, alone, last = script.decide(batch, NOW)
    assert isinstance(first[0], Outcome)
    assert mixed == [Failure(4), Failure(status), Failure(4)]
    assert alone == [Failure(status)]
    assert [o.remaining for o in last if isinstance(o, Outcome)] == [3, 4]
    assert script.client.dump("bad") == before


def _spoil(client: "redis.Redis", kind: str) -> None:
    match kind:
        case "hash":
            client.hset("bad", "field", "value")
        case "list":
            client.rpush("bad", "one", "two")
        case "log":
            client.rpush("bad", b"\x13" + bytes(24), "no entry of ours")
            client.ltrim("bad", 0, 0)
        case "short":
            client.set("bad", "5")
        case _:
            client.set("bad", "x" * 41)


def test_garbage_in_the_right_form_never_stops_the_store(script: Script) -> None:
    not_a_number = b"\x00\x00\x00\x00\x00\x00\xf8\x7f"
    endless = b"\x00\x00\x00\x00\x00\x00\xf0\x7f"
    for algorithm, form, fields in [
        ("fixed_window", 17, 2),
        ("sliding_window", 18, 3),
        ("token_bucket", 20, 5),
        ("quota", 21, 3),
        ("sliding_slots", 22, 3),
    ]:
        for junk in (not_a_number, endless, b"\xff" * 8, bytes(8)):
            script.client.set("bad", bytes([form]) + junk * fields)
            answers = script.decide([[op("bad", algorithm)], [op("good")]], NOW)  # type: ignore[arg-type]
            assert isinstance(answers[1][0], Outcome)
            script.client.delete("good", "bad")


def test_a_request_over_a_log_and_a_bucket_is_all_or_nothing(script: Script) -> None:
    both = [op("log", "sliding_log", n=3), op("bucket", n=2)]
    answers = script.decide([both] * 3 + [[op("log", "sliding_log", n=3)]] * 2, NOW)
    fits = [[o.fits for o in answer if isinstance(o, Outcome)] for answer in answers]
    assert fits == [[True, True], [True, True], [True, False], [True], [False]]


def test_a_batch_of_many_records_comes_back_whole(script: Script) -> None:
    batch = [[op(f"k{number}", n=10)] for number in range(2500)]
    answers = script.decide(batch, NOW)
    assert all(answer == [Outcome(True, 9, 0, 6 * SECOND)] for answer in answers)

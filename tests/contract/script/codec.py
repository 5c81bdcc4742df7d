"""The script as text in both forms, and how a batch is packed for it and its answer unpacked."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.oracle.model import SECOND, Op, Outcome

if TYPE_CHECKING:
    import redis

SCRIPT = Path(__file__).parents[3] / "crates/counters/src/redis/lua/decide.lua"
STRETCH = 1000
ALGORITHM_CODES = {
    "fixed_window": 1,
    "sliding_window": 2,
    "sliding_log": 3,
    "token_bucket": 4,
    "quota": 5,
    "sliding_slots": 6,
}
ACTION_CODES = {"charge": 0, "peek": 1, "refund": 2}
LATE_BUCKET = 7
"""A token bucket that remembers when it was idle."""
CHARGE_ANYWAY = 3
TELL = 32768
SHADOW, LAST = 4, 8

Request = Sequence[Op]


def source() -> str:
    """The script as it is shipped."""
    return SCRIPT.read_text()


def as_test_form(text: str) -> str:
    """The script with its clock as the second argument and with stretched lives.

    The first line and the one that sets STRETCH are replaced, nothing else.
    """
    _, rest = text.split("\n", 1)
    head, found, tail = rest.partition("\nlocal STRETCH = 1\n")
    assert found
    return f"local now = tonumber(ARGV[2])\n{head}\nlocal STRETCH = {STRETCH}\n{tail}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An operation that the script could not decide: 2 other type, 3 not ours, 4 its request."""

    status: int


def pack_batch(
    requests: Sequence[Request], *, is_told_late: bool = False
) -> tuple[list[str], bytes]:
    """The keys and the packed argument of one call."""
    keys: dict[str, int] = {}
    rules: dict[bytes, int] = {}
    ops = bytearray()
    for request in requests:
        for position, op in enumerate(request, start=1):
            code = ALGORITHM_CODES[op.algorithm]
            if is_told_late and op.algorithm == "token_bucket":
                code = LATE_BUCKET
            rule = struct.pack("<Bddd", code, *_numbers(op))
            is_peek = op.action == "charge" and op.cost == 0
            flags = ACTION_CODES["peek" if is_peek else op.action]
            if op.is_taken_anyway:
                flags = CHARGE_ANYWAY
            flags |= SHADOW * op.shadow | LAST * (position == len(request))
            ops += struct.pack(
                "<HHBd",
                keys.setdefault(op.key, len(keys) + 1),
                rules.setdefault(rule, len(rules) + 1),
                flags,
                op.asked,
            )
    return list(keys), struct.pack("<H", len(rules)) + b"".join(rules) + bytes(ops)


def _numbers(op: Op) -> tuple[int, int, int]:
    """N, period and burst; of a quota the begin of its period, and the lengths of two in one."""
    if op.algorithm == "sliding_slots":
        return op.n, op.period_us, 2 * op.slots + op.is_conservative
    if op.algorithm != "quota":
        return op.n, op.period_us, op.burst
    begin, end, following = op.periods
    return op.n, begin, (end - begin) // SECOND * 2**26 + (following - end) // SECOND


def unpack_reply(reply: bytes, requests: Sequence[Request]) -> list[list[Outcome | Failure]]:
    """The outcomes of each request of the batch."""
    records = iter(struct.iter_unpack("<Bddd", reply))
    return [[_outcome(*next(records)) for _ in request] for request in requests]


def _outcome(status: int, remaining: float, wait: float, reset: float) -> Outcome | Failure:
    assert all(number.is_integer() for number in (remaining, wait, reset))
    if status > 1:
        return Failure(status)
    return Outcome(status == 1, int(remaining), int(wait), int(reset))


class Script:
    """The script in one store, in its test form (`now_us` given) or as shipped."""

    def __init__(self, client: "redis.Redis") -> None:
        self.client: Any = client
        """Untyped: what its commands return is typed for the asynchronous client too."""
        self._shipped: Any = client.register_script(source())
        self._test_form: Any = client.register_script(as_test_form(source()))

    def decide(
        self,
        requests: Sequence[Request],
        now_us: int | None = None,
        *,
        is_told_late: bool = False,
    ) -> list[list[Outcome | Failure]]:
        """Decides one batch in one call."""
        keys, batch = pack_batch(requests, is_told_late=is_told_late)
        if now_us is None:
            reply = self._shipped(keys=keys, args=[batch])
        else:
            reply = self._test_form(keys=keys, args=[batch, now_us])
        return unpack_reply(reply, requests)

"""The script's own arithmetic, over the whole range of its numbers."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.contract.script.codec import Script, source
from tests.oracle.model import MAX

LONGEST_PERIOD = 366 * 86_400 * 1_000_000


def _function(name: str) -> str:
    """The text of one top-level function of the script."""
    start = source().index(f"local function {name}(")
    return source()[start : source().index("\nend\n", start) + 5]


CONSTANTS = "local MAX, WRAP, floor = 9007199254740991, 9007199254740992, math.floor\n"
MUL_DIV = f"""{CONSTANTS}{_function("mul_div")}
local a, b, d = struct.unpack('<ddd', ARGV[1])
return struct.pack('<dd', mul_div(a, b, d))
"""
DRAIN_TIME = f"""{CONSTANTS}{_function("mul_div")}{_function("drain_time")}
return struct.pack('<d', drain_time(struct.unpack('<dddd', ARGV[1])))
"""


def any_number(least: int, most: int) -> st.SearchStrategy[int]:
    """Numbers of every size, and those near a power of two or the edges."""
    return st.one_of(
        st.integers(least, most),
        st.integers(least, min(most, 1000)),
        st.integers(max(least, most - 3), most),
        st.builds(lambda bits, off: 2**bits + off, st.integers(0, 53), st.integers(-2, 2)).filter(
            lambda number: least <= number <= most
        ),
    )


def test_mul_div_is_exact_and_saturates(script: Script) -> None:
    run = script.client.register_script(MUL_DIV)

    @given(any_number(0, MAX), any_number(0, MAX), any_number(1, MAX))
    def check(a: int, b: int, d: int) -> None:
        quotient, remainder = divmod(a * b, d)
        expected = (quotient, remainder) if quotient <= MAX else (MAX, 0)
        assert struct.unpack("<dd", run(args=[struct.pack("<ddd", a, b, d)])) == expected

    check()


def test_the_time_to_drain_is_exact_or_past_the_end(script: Script) -> None:
    run = script.client.register_script(DRAIN_TIME)

    @given(any_number(0, MAX), st.data(), any_number(1, MAX), any_number(1, LONGEST_PERIOD))
    def check(level: int, data: st.DataObject, n: int, period: int) -> None:
        rem = data.draw(st.integers(0, period - 1))
        exact = -(-(level * period + rem) // n)
        (said,) = struct.unpack("<d", run(args=[struct.pack("<dddd", level, rem, n, period)]))
        assert min(said, MAX) == min(exact, MAX)

    check()

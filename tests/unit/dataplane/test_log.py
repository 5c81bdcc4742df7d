"""The log: one line for each event, in words or as JSON, of the levels asked for."""

import io
import json

import pytest

from tidegate.dataplane.log import Log


def test_words_are_one_line_and_values_with_spaces_are_quoted() -> None:
    stream = io.StringIO()
    Log(stream).error("two\nlines", reason='a "b"', count=3)
    time, rest = stream.getvalue().split(maxsplit=1)
    assert time.endswith("Z")
    assert rest == 'error   two | lines reason="a \\"b\\"" count=3\n'


def test_json_is_one_object_a_line_with_numbers_as_numbers() -> None:
    stream = io.StringIO()
    log = Log(stream, is_json=True)
    log.warning("two\nlines", reason=ValueError("a"), count=3)
    log.info("next")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {"level": "warning", "message": "two\nlines", "reason": "a", "count": 3}
    assert second["message"] == "next"


@pytest.mark.parametrize(
    ("level", "written"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_lines_below_the_level_are_not_written(level: str, written: int) -> None:
    stream = io.StringIO()
    log = Log(stream, level=level)
    log.write("debug", "a", {})
    log.info("b")
    log.warning("c")
    log.error("d")
    assert len(stream.getvalue().splitlines()) == written

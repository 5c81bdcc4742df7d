"""The test form differs from the shipped script in its clock and in STRETCH, nowhere else."""

from tests.contract.script.codec import as_test_form, source


def test_only_the_clock_and_the_stretch_differ() -> None:
    shipped, tested = source().split("\n"), as_test_form(source()).split("\n")
    differing = [pair for pair in zip(shipped, tested, strict=True) if pair[0] != pair[1]]
    assert differing == [
        (
            "local clock = redis.call('TIME') local now = clock[1] * 1000000 + clock[2]",
            "local now = tonumber(ARGV[2])",
        ),
        ("local STRETCH = 1", "local STRETCH = 1000"),
    ]


def test_the_shipped_script_takes_its_time_from_the_store_alone() -> None:
    assert source().count("'TIME'") == 1
    assert "ARGV[2]" not in source().replace("tonumber(ARGV[2])`", "")


def test_every_write_of_a_string_sets_its_life() -> None:
    sets = [line for line in source().split("\n") if "call('SET'" in line]
    assert sets
    assert all("'PX'" in line for line in sets)

"""Real files with parts removed, doubled or put in give problems, never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tidegate.policy.load import load_policy

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("seed", range(30))
def test_a_mutilated_file_gives_problems_and_never_a_traceback(seed: int) -> None:
    """Real files with characters and lines removed, doubled, swapped or put in."""
    chance = random.Random(seed)
    text = (EXAMPLES / "shop.yaml").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.strip().startswith("#"))
    strange = [
        "{",
        "}",
        "[",
        "]",
        ":",
        "- ",
        "&a ",
        "*a",
        "!",
        "'",
        '"',
        "\t",
        "\x00",
        "é",
        "0",
        "\n",
        "  ",
        "null",
        "|",
        ">",
        "%",
        "<<: ",
        ", ",
        "~",
    ]
    for _ in range(40):
        changed = text
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(changed))
            end = at + chance.choice([0, 1, 1, 5, 40])
            changed = (
                changed[:at]
                + chance.choice(["", chance.choice(strange), changed[at:end] * 2])
                + changed[end:]
            )
        result = load_policy(changed)
        assert (result.document is None) == bool(result.errors)
        for problem in result.problems:
            assert problem.message
            assert problem.line <= changed.count("\n") + 2
            assert problem.column >= 0
        cut = load_policy(changed[: chance.randrange(len(changed))].encode())
        assert (cut.document is None) == bool(cut.errors)

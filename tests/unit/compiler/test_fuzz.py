"""Mutations of the files in fuzz/corpus/policies, for as long as FUZZ_SECONDS says.

Whatever the bytes are, there are problems and no traceback; and what is accepted, the engine loads.
"""

import os
import time
from pathlib import Path
from random import Random

from tests.unit.compiler.test_engine import take
from tidegate.compiler import compile_policy

FUZZ = Path(__file__).parents[3] / "fuzz"
SECONDS = float(os.environ.get("FUZZ_SECONDS", "2"))
LONGEST = 20_000
PIECES = [
    *(b"{", b"}", b"[", b"]", b": ", b"- ", b"&a ", b"*a", b"<<: ", b"!!int ", b"'", b'"', b"#"),
    *(b"\t", b"\n", b"\n  ", b"\x00", b"\xff", "é".encode(), b"~", b"null", b"|\n", b"0", b"-1"),
    *(b"true", b"9007199254740992", b"1e9", b"5/min", b"rate", b"per", b"id", b"limits", b"burst"),
    *(b"count_denied: true", b"request_override: true", b"algorithm: sliding_log", b"unlimited"),
]


def test_whatever_the_file_is_there_are_problems_or_a_policy_that_loads() -> None:
    corpus = [path.read_bytes() for path in sorted((FUZZ / "corpus" / "policies").iterdir())]
    seed = int(os.environ.get("FUZZ_SEED", time.time_ns()))
    rng = Random(seed)
    until = time.monotonic() + SECONDS
    inputs = list(corpus)
    count = 0
    while inputs or time.monotonic() < until:
        written = inputs.pop() if inputs else _mutated(rng, corpus)
        try:
            _check(written)
        except Exception:
            found = FUZZ / "found" / f"policies-{seed}-{count}"
            found.parent.mkdir(exist_ok=True)
            found.write_bytes(written)
            raise
        count += 1
    print(f"policies: {count} files, seed {seed}")


def _check(written: bytes) -> None:
    compiled = compile_policy(written)
    if compiled.document is None or compiled.snapshot is None:
        assert any(problem.message for problem in compiled.problems)
    else:
        take(compiled.snapshot, compiled.document)
    for problem in compiled.problems:
        assert problem.line <= written.count(b"\n") + written.count(b"\r") + 3
        assert len(problem.message) < 2000


def _mutated(rng: Random, corpus: list[bytes]) -> bytes:
    text = rng.choice(corpus)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(text) + 1)
        end = at + rng.choice([0, 1, 1, 4, 30])
        other = rng.choice(corpus)
        start = rng.randrange(len(other))
        put = rng.choice(
            [
                b"",
                rng.choice(PIECES),
                rng.choice(PIECES),
                text[at:end] * 2,
                other[start : start + rng.randint(1, 60)],
                bytes([rng.randrange(256)]),
            ]
        )
        text = text[:at] + put + text[end:]
    return text[:LONGEST]

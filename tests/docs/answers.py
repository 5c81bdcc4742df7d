"""Whether an answer is the one that a page shows, apart from what differs each time."""

import re

_DIFFERS = (
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "DECISION"),
    (re.compile(r"(revision\W{1,4})[0-9a-f]{12}\b"), r"\1REVISION"),
    (re.compile(r"((?:reset_ms|retry_after_ms)\":\s*)[0-9]+"), r"\1TIME"),
    (re.compile(r"((?:reset|retry-after): )[0-9]+"), r"\1TIME"),
    (re.compile(r"(unused again in |passes in )[0-9.]+ [a-z]+(?: [0-9]+ [a-z]+)?"), r"\1TIME"),
    (re.compile(r"(retry after |'retry-after': ')[0-9.]+"), r"\1TIME"),
    (re.compile(r"\b20[0-9]{2}-[01][0-9]-[0-9T:.]+Z"), "INSTANT"),
    (re.compile(r"^(?:date|content-length|connection): .*\n?", re.MULTILINE), ""),
    (re.compile(r"os error [0-9]+"), "os error"),
)


def is_same(shown: str, found: str) -> bool:
    """Whether they say the same; `…` in what is shown stands for anything, line breaks for none."""
    pattern = ".*".join(map(re.escape, _plain(shown).split("…")))
    return re.fullmatch(pattern, _plain(found), re.DOTALL) is not None


def _plain(text: str) -> str:
    for what, stand_in in _DIFFERS:
        text = what.sub(stand_in, text)
    return re.sub(r"\s+", "", text)

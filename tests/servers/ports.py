"""Ports for servers that must be told theirs before they start."""

import random
import socket
from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
_FIRST, _LAST = 10_000, 32_767
"""Below those that systems give away by themselves (from 32,768 on, on Linux): between the look and
the server's start no connection of anybody's can take one."""


def free_port() -> int:
    """A port of loopback that nobody has now, and that this process was not given before."""
    return next(_FREE)


def _free() -> Iterator[int]:
    while True:
        for port in random.sample(range(_FIRST, _LAST + 1), _LAST + 1 - _FIRST):
            with socket.socket() as probe:
                try:
                    probe.bind((LOOPBACK, port))
                except OSError:
                    continue
            yield port


_FREE = _free()

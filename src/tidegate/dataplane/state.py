"""The file in which counters in memory outlive a stop: what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate._native import Server
    from tidegate.dataplane.log import Log

_SECOND_US = 1_000_000


def tell_taken(path: str, server: Server, log: Log) -> None:
    """Logs what a node took up at its start; nothing where there was no file.

    Args:
        path: The file.
        server: Who took it up.
        log: Is told.
    """
    taken = server.state_taken()
    if taken is None:
        return
    if taken.error is not None:
        log.error("state not taken up, all counters begin anew", file=path, reason=taken.error)
        return
    log.info(
        "state taken up",
        file=path,
        counters=taken.counters,
        ended=taken.ended,
        age_s=taken.age_us // _SECOND_US,
    )
    if taken.no_room:
        log.warning("max-counters left no room for some of the state", counters=taken.no_room)
    if taken.age_us < -_SECOND_US:
        seconds = -taken.age_us // _SECOND_US
        log.warning("the clock was set back; what was counted stays so", seconds=seconds)


def keep(path: str, server: Server, log: Log) -> None:
    """Saves what counters hold; a failure is logged, and the file before it stays.

    Args:
        path: The file.
        server: Whose counters; it serves no more.
        log: Is told.
    """
    try:
        saved = server.save_state(path)
    except ConfigError as error:
        log.error("state not saved", file=path, reason=error)  # noqa: TRY400  no log of Python's
        return
    if saved is not None:
        counters, left_out = saved
        log.info("state saved", file=path, counters=counters)
        if left_out:
            log.warning("shared counters are not saved; raise max-counters", counters=left_out)

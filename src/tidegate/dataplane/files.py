"""How many connections fit under the system's limit on open files."""

from __future__ import annotations

import resource

_OWN = 32
_OWN_OF_A_WORKER = 32


def connections_that_fit(wanted: int, workers: int) -> int:
    """Raises this process's limit on open files as far as it may, and says what fits under it.

    A crowd that takes every file takes also those that the policy is read by and the store is
    asked by, and without a store limits may be open.

    Args:
        wanted: Connections that are to be open at once.
        workers: Threads that serve; each keeps a connection to every node of the store.

    Returns:
        What was wanted, or less; at least 1.
    """
    own = _OWN + workers * _OWN_OF_A_WORKER
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + own
    if _is_below(soft, needed):
        soft = needed if not _is_below(hard, needed) else hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, soft - own) if _is_below(soft, needed) else wanted


def _is_below(limit: int, needed: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < needed

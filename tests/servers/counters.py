"""What a store holds of counters: nodes keep a key beside them, in which they count themselves."""

from typing import Any

_NODES = b"{nodes}"
"""What that key ends in, after the prefix. A node writes it once a second, when it can."""


def counters(client: Any) -> list[bytes]:
    """The keys of counters that one server holds, asked by a client of redis-py."""
    return [key for key in client.scan_iter() if not key.endswith(_NODES)]

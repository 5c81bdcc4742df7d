"""Words of the policy language that come later or belong elsewhere: known, and refused by name."""

from __future__ import annotations

from tidegate.policy.problems import Path, printable

_FIELDS = {
    "scope": "a limit counts in one store",
    "concurrency": "",
    "lease": "",
    "charge_on": "",
    "oversize": "a cost above the capacity is denied",
    "anchor": "a quota of months begins with the first",
    "block": "rate: 0/min blocks",
    "borrow": "",
}
_SETTINGS = {"wait_replicas": "--store-wait-replicas"}
"""Words that say something of the store, and so of a node."""
_VALUES = {
    "on_store_failure": (("soft",), "write local"),
    "on_exceed": (("queue",), "write reject or shadow"),
}


def not_yet(path: Path, written: object) -> tuple[str, str] | None:
    """Message and hint, if this field or value is one that comes later, or belongs elsewhere."""
    name = path[-1] if path else ""
    if name in _SETTINGS and len(path) > 1:
        flag = _SETTINGS[str(name)]
        return (
            f"{name} is no word of a policy, but a setting of the node",
            f"start it with {flag} N",
        )
    if name in _FIELDS and len(path) > 1:
        return f"{name} is not supported yet", _FIELDS[str(name)] or "remove it"
    if name in _VALUES:
        words, hint = _VALUES[str(name)]
        word = next(iter(written), "") if isinstance(written, dict) else written
        if isinstance(word, str) and word.partition(":")[0].strip() in words:
            return f"{name}: {printable(word)} is not supported yet", hint
    return None


def is_of_envoyproxy_ratelimit(value: object) -> bool:
    """Whether the file is written for envoyproxy/ratelimit."""
    if not isinstance(value, dict) or "domains" in value:
        return False
    return "descriptors" in value or ("domain" in value and "version" not in value)

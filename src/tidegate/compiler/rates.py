"""A limit written in Python, compiled like one of a policy file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from tidegate.compiler.snapshot import Json, Snapshot, encode, limit_rows
from tidegate.errors import ConfigError
from tidegate.policy.document import Limit
from tidegate.policy.problems import did_you_mean, quoted
from tidegate.policy.rates import parse_rates
from tidegate.policy.rules import check_limit

if TYPE_CHECKING:
    from collections.abc import Sequence


def compile_rates(
    rates: str,
    *,
    id: str,  # noqa: A002  the policy's own word
    algorithm: str = "token_bucket",
    per: Sequence[str] = (),
    on_store_failure: str = "open",
) -> Snapshot:
    """Compiles one limit, alone in a domain whose name is empty.

    Args:
        rates: Such as `5/minute; 100/day` or `10/s burst 50`.
        id: The identity of its counters.
        algorithm: A word of the policy file.
        per: Descriptor keys: one counter for each combination of their values.
        on_store_failure: `open` or `closed`.

    Raises:
        ConfigError: with what is wrong and where.
    """
    if not isinstance(rates, str):
        raise ConfigError(f"a rate is text, not {type(rates).__name__}", hint='write "100/min"')
    if any(not _is_unicode(key) for key in per):
        raise ConfigError("a key of per holds half of a surrogate pair", path=id)
    limit = _limit(
        {
            "id": id,
            "rate": parse_rates(rates),
            "algorithm": algorithm,
            "per": list(per),
            "missing": "deny",
            "on_store_failure": on_store_failure,
        }
    )
    for rate in limit.rates.items:
        if rate.burst is not None and limit.algorithm.is_window:
            message = f"burst has no meaning for {algorithm}, which counts in windows"
            raise ConfigError(message, path=id, hint="remove it, or use token_bucket")
    for found in check_limit(limit, ()):
        if found.severity == "error":
            raise ConfigError(found.message, path=id, hint=found.hint)
    domain: dict[str, Json] = {
        "name": "",
        "tenant_key": None,
        "limits": limit_rows(limit),
        "plans": [],
        "tenants": {},
    }
    return encode([domain], {})


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _limit(fields: dict[str, object]) -> Limit:
    try:
        return Limit.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field, written = str(first["loc"][0]), first["input"]
    context = first.get("ctx", {})
    if "expected" in context:
        known = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        hint = did_you_mean(str(written), known)
        raise ConfigError(f"unknown {field} {quoted(str(written))}", hint=hint)
    raise ConfigError(str(context.get("message", first["msg"])), path=field)

"""The policy document, typed: one class for each kind of mapping in the file.

Validation and the JSON Schema of editors both come from here. Rules that look at more than one
field are in `rules` and `tenants`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from tidegate.policy.consistency import EXACT, ConsistencyField
from tidegate.policy.fields import (
    NULLABLE,
    EmptyableList,
    EmptyableMapping,
    Flag,
    Name,
    OptionalCount,
    OptionalInstant,
    OptionalName,
    OptionalQuota,
    OptionalRates,
    OptionalSlots,
    OptionalText,
    OptionalZone,
    Text,
    mistake,
    text,
)
from tidegate.policy.matchers import MatcherField  # noqa: TC001  pydantic reads it when the class is made
from tidegate.policy.problems import did_you_mean, quoted
from tidegate.policy.rates import UNREADABLE, Rates


class Algorithm(StrEnum):
    """How a limit counts."""

    TOKEN_BUCKET = "token_bucket"  # noqa: S105  no secret
    FIXED_WINDOW = "fixed_window"
    SLIDING_WINDOW = "sliding_window"
    SLIDING_LOG = "sliding_log"
    LEAKY_BUCKET = "leaky_bucket"

    @property
    def is_window(self) -> bool:
        """Whether it counts in windows, and so has no burst."""
        return self not in (Algorithm.TOKEN_BUCKET, Algorithm.LEAKY_BUCKET)


class Preset(StrEnum):
    """A name for a burst size."""

    STRICT = "strict"
    STANDARD = "standard"
    GENEROUS = "generous"


def _preset(value: object) -> Preset:
    try:
        return Preset(text(value))
    except ValueError:
        hint = did_you_mean(str(value), Preset)
        raise mistake(f"unknown preset {quoted(str(value))}", hint) from None


OptionalPreset = Annotated[
    Preset | None,
    PlainValidator(_preset),
    WithJsonSchema({"type": "string", "enum": [preset.value for preset in Preset]}),
]


class Part(BaseModel):
    """A mapping of the document: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_RATE_HELP = (
    "How much: N/unit or N per [M] unit (100/min, 10k/h, 1M per 15min), several joined by ;"
)
_QUOTA_HELP = (
    "How much in each calendar period: N/unit with hour, day, week, month or year (5M/month), "
    "several joined by ;. A limit has a rate or a quota."
)
_BURST_HELP = "Capacity of the token bucket; default: N of the rate."
_PRESET_HELP = "Names the burst: strict = a fifth of N, standard = N, generous = twice N."


class Amount(Part):
    """Numbers that replace those of a limit; what is not written stays."""

    rate: OptionalRates = Field(default=None, description=_RATE_HELP)
    quota: OptionalQuota = Field(default=None, description=_QUOTA_HELP)
    burst: OptionalCount = Field(default=None, description=_BURST_HELP)
    preset: OptionalPreset = Field(default=None, description=_PRESET_HELP)

    @property
    def rates(self) -> Rates | None:
        """What is written as rate or quota."""
        return self.rate if self.quota is None else self.quota


class Override(Amount):
    """A dated exception for one tenant and limit; the latest `from` in force wins."""

    limit: Name = Field(description="The id of the limit.")
    from_us: OptionalInstant = Field(
        default=None, alias="from", description="Holds from here on, with zone; default: always."
    )
    until_us: OptionalInstant = Field(
        default=None, alias="until", description="Ends just before; default: never."
    )
    id: OptionalName = Field(default=None, description="Default: the limit, or limit@from.")
    reason: OptionalText = Field(default=None, description="Why, for people.")


class Tenant(Part):
    """Who is limited: a plan and exceptions to it."""

    plan: OptionalName = Field(default=None, description="The name of a plan.")
    overrides: Annotated[list[Override], EmptyableList, NULLABLE] = Field(
        default_factory=list, description="Dated exceptions."
    )


class Limit(Part):
    """One rule: what it counts, who gets a counter, how much, and by which algorithm."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["rate"]}, {"required": ["quota"]}]}
    )

    id: Name = Field(description="Stable identity: edits of the numbers keep the counters.")
    when: dict[str, MatcherField] = Field(
        default_factory=dict,
        description="Which requests: what the values of descriptor keys must be; all must hold.",
    )
    per: Annotated[list[Text], EmptyableList, NULLABLE] = Field(
        default_factory=list,
        description="Descriptor keys: one counter for each combination of their values.",
    )
    missing: Literal["skip", "shared", "deny"] = Field(
        default="skip",
        description="A request without a key of `per`: the limit does not apply (skip), one "
        "counter for all such requests (shared), or denied (deny).",
    )
    rate: OptionalRates = Field(default=None, description=_RATE_HELP)
    quota: OptionalQuota = Field(default=None, description=_QUOTA_HELP)
    time_zone: OptionalZone = Field(
        default=None, description="Of a quota: the IANA zone of its periods; default: UTC."
    )
    burst: OptionalCount = Field(default=None, description=_BURST_HELP)
    preset: OptionalPreset = Field(default=None, description=_PRESET_HELP)
    algorithm: Algorithm = Field(
        default=Algorithm.TOKEN_BUCKET, description="How it counts; leaky_bucket is token_bucket."
    )
    slots: OptionalSlots = Field(
        default=None,
        description="Of a sliding_window: the parts that it is split into, 2 to 60; more err less.",
    )
    conservative: Flag = Field(
        default=False,
        description="Of a sliding_window: never above the rate in any period, since the oldest "
        "part counts whole.",
    )
    counts: Name = Field(default="requests", description="Which cost of the request it takes.")
    consistency: ConsistencyField = Field(
        default=EXACT,
        description="Where a limit on a shared store is decided: in the store (exact), or at each "
        "node, which settles with the store 20 times a second (local: over by at most 1 %), or "
        "there for counters that run hot (auto), or at each node, which asks the store once for "
        "K units ({sampled: K}: over by at most 2 K for each node), or in the store by K counters "
        "in several slots of a Cluster ({sharded: K}).",
        json_schema_extra={"default": str(EXACT)},
    )
    on_store_failure: Literal["open", "closed", "local"] = Field(
        default="open",
        description="Without the store: allow (open), deny (closed), or let each node allow its "
        "share of the limit and a tenth more (local).",
    )
    on_exceed: Literal["reject", "shadow"] = Field(
        default="reject", description="shadow: reports what it would deny, and denies nothing."
    )
    count_denied: Flag = Field(
        default=False,
        description="A request is charged even if it is denied, by this limit or another; for "
        "limits that punish, and for costs that are known only afterwards.",
    )
    request_override: Flag = Field(
        default=False,
        description="A request may bring its own rate (`limit` of a descriptor over gRPC), which "
        "then stands in for this one.",
    )

    @property
    def rates(self) -> Rates:
        """What is written as rate or quota."""
        written = self.rate if self.quota is None else self.quota
        return UNREADABLE if written is None else written


class Domain(Part):
    """A namespace of limits, as in Envoy's `domain`."""

    tenant_key: OptionalName = Field(
        default=None, description="The descriptor key that names the tenant."
    )
    limits: Annotated[list[Limit], EmptyableList, NULLABLE] = Field(
        default_factory=list,
        description="All limits that match a request apply, and all must pass.",
    )
    plans: Annotated[
        dict[str, Annotated[dict[str, Amount], EmptyableMapping, NULLABLE]],
        EmptyableMapping,
        NULLABLE,
    ] = Field(default_factory=dict, description="Named sets of numbers: plan, then limit id.")
    tenants: Annotated[
        dict[str, Annotated[Tenant, EmptyableMapping, NULLABLE]], EmptyableMapping, NULLABLE
    ] = Field(default_factory=dict, description="Tenants with a plan or exceptions, by id.")


class Document(Part):
    """A Tidegate policy file."""

    version: Annotated[Literal["1"], WithJsonSchema({"enum": [1, "1"]})] = Field(
        description="The form of this file."
    )
    domains: Annotated[
        dict[str, Annotated[Domain, EmptyableMapping, NULLABLE]], EmptyableMapping, NULLABLE
    ] = Field(
        default_factory=dict,
        description="Domains by name; a gateway names the domain that it asks.",
    )

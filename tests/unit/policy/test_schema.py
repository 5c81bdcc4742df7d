"""The schema of editors: what people write validates, what they mistype does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tidegate.policy.load import load_policy
from tidegate.policy.schema import json_schema

EXAMPLE = Path(__file__).parents[3] / "examples" / "shop.yaml"
SCHEMA = json_schema()


def complaints(text: str) -> list[str]:
    """What an editor underlines, which guesses the types of values as YAML 1.1 does."""
    validator = Draft202012Validator(SCHEMA)
    return [error.message for error in validator.iter_errors(yaml.safe_load(text))]


def limit(fields: str) -> str:
    return f"version: 1\ndomains: {{shop: {{tenant_key: t, limits: [{{id: a, {fields}}}]}}}}"


def tenant(fields: str) -> str:
    return f"version: 1\ndomains: {{shop: {{tenant_key: t, tenants: {{x: {fields}}}}}}}"


def test_the_schema_is_itself_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.read_text(),
        "version: 1\n",
        "version: 1\ndomains:\n  shop:\n    limits:\n    plans:\n    tenants:\n",
        limit("rate: 5/min"),
        limit("rate: 5/min; 10k per 2 hours, burst: 7"),
        limit("rate: unlimited, burst: 10k"),
        limit("quota: 5M/month, time_zone: Europe/Berlin"),
        limit("rate: 5/min, algorithm: sliding_window, slots: 60, conservative: true"),
        limit("quota: 500 per day; 5M/month"),
        tenant("{overrides: [{limit: a, quota: 7/year}]}"),
        limit("rate: 0/min, when: {a: 0123, b: no, c: 12:30, d: 1.5, e: [1, b*], f: ''}"),
        limit(
            "rate: 1/s, when: {a: {not: [1, {regex: a}]}, b: {cidr: 10.0.0.0/8}, c: {exact: a*b}}"
        ),
        limit("rate: 1/s, per: [a, 1, no], consistency: exact, preset: strict, missing: deny"),
        limit("rate: 9/s, algorithm: fixed_window, consistency: {sharded: 8}"),
        limit("rate: 9/s, algorithm: fixed_window, consistency: {sharded: '8'}"),
        "version: 1\ndomains: {1: {limits: [{id: 7, rate: 1/s}]}}",
        tenant("{plan: 7, overrides: [{limit: 1, rate: 1/s, from: 2026-01-01T00:00:00Z}]}"),
        tenant(
            "{overrides: [{limit: a, burst: 1, until: '2026-01-01T00:00:00+01:00', reason: 5}]}"
        ),
        tenant(""),
    ],
)
def test_what_people_write_validates(text: str) -> None:
    assert complaints(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "domains: {}",
        "version: 2",
        "version: 1\ndomain: {}",
        "version: 1\ndomains: {shop: {limit: []}}",
        limit("rat: 5/min"),
        limit("rate: 5/fortnight"),
        limit("rate: 1m/min"),
        limit("rate: 1.5/s"),
        limit("rate: 5/month"),
        limit("rate: 5/min;"),
        limit("quota: 5/min"),
        limit("quota: 5 per 2 months"),
        limit("quota: 5/month, rate: 5/min"),
        limit("time_zone: UTC"),
        limit("rate: 5/min, slots: 61"),
        limit("rate: 5/min, slots: 1"),
        limit("rate: 5"),
        limit("rate: 5/min, algoritm: fixed_window"),
        limit("rate: 5/min, algorithm: fixed_windw"),
        limit("rate: 5/min, preset: lax"),
        limit("rate: 5/min, burst: 0"),
        limit("rate: 5/min, burst: 10K"),
        limit("rate: 5/min, consistency: sharded"),
        limit("rate: 500/min, algorithm: fixed_window, consistency: {sharded: 65}"),
        limit("rate: 500/min, algorithm: fixed_window, consistency: {local: 8}"),
        limit("rate: 5/min, quota: 5/month"),
        limit("rate: 5/min, per: tenant"),
        limit("rate: 5/min, when: {a: b*c}"),
        limit("rate: 5/min, when: {a: {regexp: b}}"),
        limit("rate: 5/min, when: {a: []}"),
        limit("rate: 5/min, when: {a: {not: {not: b}}}"),
        tenant("{plans: pro}"),
        tenant("{overrides: [{rate: 5/min}]}"),
        tenant("{overrides: [{limit: a, rate: 5/min, from: tomorrow}]}"),
        tenant("{overrides: [{limit: a, rate: 5/min, from: 1798675200}]}"),
        tenant("{overrides: {limit: a}}"),
    ],
)
def test_what_people_mistype_does_not_validate(text: str) -> None:
    assert complaints(text) != []
    assert load_policy(text).errors != ()


def test_every_field_is_explained() -> None:
    definitions = SCHEMA["$defs"]
    assert isinstance(definitions, dict)
    parts = [SCHEMA, *(one for one in definitions.values() if "properties" in one)]
    for part in parts:
        fields = part["properties"]
        assert isinstance(fields, dict)
        assert [name for name, field in fields.items() if "description" not in field] == []

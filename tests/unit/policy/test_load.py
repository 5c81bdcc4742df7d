"""Whole policy files: what is accepted, and every problem with place, path and fix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import ConfigError
from tidegate.policy.load import LoadResult, load_policy

if TYPE_CHECKING:
    from tidegate.policy.problems import Problem

EXAMPLES = Path(__file__).parents[3] / "examples"

BASE = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - id: search
        per: [tenant]
        rate: 100/min
"""


def limit(*lines: str, head: str = "id: a") -> str:
    """A policy of one limit with these fields."""
    fields = "".join(f"        {line}\n" for line in lines)
    return f"version: 1\ndomains:\n  shop:\n    limits:\n      - {head}\n{fields}"


def only(text: str) -> Problem:
    result = load_policy(text, "p.yaml")
    assert len(result.problems) == 1, [str(problem) for problem in result.problems]
    return result.problems[0]


def errors(text: str) -> list[str]:
    return [problem.message for problem in load_policy(text).errors]


def accepted(text: str) -> LoadResult:
    result = load_policy(text)
    assert result.document is not None, [str(problem) for problem in result.problems]
    return result


def test_the_example_is_valid_without_a_warning() -> None:
    result = load_policy(EXAMPLES / "shop.yaml")
    assert result.document is not None
    assert result.problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\n",
        "version: 1\ndomains: {}\n",
        "version: 1\ndomains:\n",
        "version: 1\ndomains: {shop: {limits: []}}",
        "version: 1\ndomains:\n  shop: {limits: , plans: , tenants: , tenant_key: t}",
        '{"version": "1", "domains": {"shop": {"limits": [{"id": "a", "rate": "1/s"}]}}}',
    ],
)
def test_empty_parts_are_fine(text: str) -> None:
    assert accepted(text).problems == ()


def test_ids_keys_values_and_tenants_are_the_text_as_written() -> None:
    text = """\
version: 1
domains:
  no:
    tenant_key: 0x10
    limits:
      - {id: 0123, when: {on: off, 1: [12:30, 1e3, "0*"]}, per: [0x10], rate: 1/s}
    plans: {1.0: {0123: {rate: 2/s}}}
    tenants: {007: {plan: 1.0}, null: {}, "": {}, ~: {}}
"""
    document = accepted(text).document
    assert document is not None
    domain = document.domains["no"]
    assert domain.tenant_key == "0x10"
    assert domain.limits[0].id == "0123"
    assert list(domain.limits[0].when) == ["on", "1"]
    assert [pattern.text for pattern in domain.limits[0].when["1"].any] == ["12:30", "1e3", "0"]
    assert list(domain.tenants) == ["007", "null", "", "~"]
    assert domain.tenants["007"].plan == "1.0"


def test_all_problems_of_a_file_are_told_at_once_each_with_place_path_and_fix() -> None:
    text = """\
version: 1
domains:
  shop:
    tenantkey: tenant
    limits:
      - id: search
        rate: 1m/min
        algoritm: fixed_window
      - id: search
        rate: 5/min
        burst: 0
        algorithm: sliding_windw
    tenants:
      acme:
        plan: pro
        overrides:
          - {limit: serch, rate: 5/min, until: 2026-12-31}
"""
    result = load_policy(text, "shop.yaml")
    assert result.document is None
    told = [(one.line, one.column, one.path, one.message, one.hint) for one in result.problems]
    shop, acme = "domains.shop", "domains.shop.tenants.acme"
    assert told == [
        (4, 5, f"{shop}.tenantkey", 'unknown field "tenantkey"', 'did you mean "tenant_key"?'),
        (
            7, 16, f"{shop}.limits[0].rate", 'rate "1m/min": "m" is no multiplier',
            "did you mean 1M?",
        ),
        (
            8, 9, f"{shop}.limits[0].algoritm", 'unknown field "algoritm"',
            'did you mean "algorithm"?',
        ),
        (
            9, 13, f"{shop}.limits[1].id", 'the id "search" stands twice',
            "limits[0] has it: an id names one counter, so choose another",
        ),
        (11, 16, f"{shop}.limits[1].burst", '"0" is out of bounds', "allowed: 1 to 2^53 - 1"),
        (
            12, 20, f"{shop}.limits[1].algorithm", 'unknown algorithm "sliding_windw"',
            'did you mean "sliding_window"?',
        ),
        (
            13, 5, f"{shop}.tenants", "tenants need a tenant_key in their domain",
            "add tenant_key: the descriptor key whose value names the tenant",
        ),
        (15, 15, f"{acme}.plan", 'there is no plan "pro"', "add it under plans: pro"),
        (
            17, 21, f"{acme}.overrides[0].limit", 'there is no limit "serch"',
            'did you mean "search"?',
        ),
        (
            17, 48, f"{acme}.overrides[0].until", '"2026-12-31" is no instant',
            "write date, time and zone: 2026-12-31T00:00:00Z",
        ),
    ]  # fmt: skip
    assert all(problem.file == "shop.yaml" for problem in result.problems)
    assert str(result.problems[1]).startswith("shop.yaml:7:16: error: ")


def test_one_mistake_makes_no_others() -> None:
    text = BASE + (
        "      - hello\n"
        "      - {id: x, per: [tenant], rate: 1/fortnight}\n"
        "    plans: {pro: [a], free: {x: {rate: lots}}, tiny: {search: {burst: none}}}\n"
        "    tenants:\n"
        "      acme:\n"
        "        plan: pro\n"
        "        overrides:\n"
        "          - {limit: x, rate: 1/s, from: tomorrow}\n"
        "          - {limit: x, rate: 2/s}\n"
    )
    assert [problem.path for problem in load_policy(text).problems] == [
        "domains.shop.limits[1]",
        "domains.shop.limits[2].rate",
        "domains.shop.plans.pro",
        "domains.shop.plans.free.x.rate",
        "domains.shop.plans.tiny.search.burst",
        "domains.shop.tenants.acme.overrides[0].from",
    ]


def test_places_stay_right_behind_an_item_that_cannot_be_read() -> None:
    text = (
        "version: 1\ndomains:\n  a:\n    limits:\n"
        "      - 5\n      - {id: b, rate: 5/s, preset: strict, burst: 2}\n"
    )
    assert [(one.line, one.column, one.path) for one in load_policy(text).problems] == [
        (5, 9, "domains.a.limits[0]"),
        (6, 28, "domains.a.limits[1].preset"),
    ]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("on_store_failure: soft", "on_store_failure: soft"),
        ("on_exceed: queue", "on_exceed: queue"),
        ("on_exceed: {queue: {max_wait: 2s}}", "on_exceed: queue"),
        ("scope: global", "scope"),
        ("concurrency: 20", "concurrency"),
        ("lease: 60s", "lease"),
        ("charge_on: {status: [401]}", "charge_on"),
    ],
)
def test_words_that_come_later_are_refused_by_name(line: str, word: str) -> None:
    problem = only(limit("rate: 5/min", line))
    assert problem.message == f"{word} is not supported yet"
    assert problem.line == 7


def test_a_setting_of_the_node_is_sent_there() -> None:
    problem = only(limit("rate: 5/min", "wait_replicas: 1"))
    assert "a setting of the node" in problem.message
    assert "--store-wait-replicas" in problem.hint


def test_a_limit_by_a_word_that_comes_later_is_not_said_to_lack_a_rate() -> None:
    assert only(limit("concurrency: 20")).message == "concurrency is not supported yet"


def test_anchored_months_are_refused_by_name() -> None:
    assert only(limit("quota: 5M/month", "anchor: 31")).message == "anchor is not supported yet"


@pytest.mark.parametrize(
    "text",
    [
        "domain: mongo_cps\ndescriptors:\n  - key: database\n",
        "descriptors: []\n",
        "domain: rl\n",
    ],
)
def test_an_envoyproxy_file_is_recognised(text: str) -> None:
    assert only(text).message == "this is a file for envoyproxy/ratelimit: not supported yet"


@pytest.mark.parametrize(
    "line",
    [
        "consistency: exact",
        "algorithm: leaky_bucket",
        "missing: deny",
        "on_exceed: shadow",
        "on_store_failure: closed",
        "on_store_failure: local",
        "counts: tokens",
        "preset: generous",
        "burst: 10k",
        "burst: '7'",
    ],
)
def test_words_of_the_contract_are_accepted(line: str) -> None:
    assert accepted(limit("rate: 5/min", line)).problems == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("rate: 5/min", "algorithm: fixed_window", "burst: 3"), "burst has no meaning"),
        (("rate: 5/min", "algorithm: sliding_log", "preset: strict"), "preset has no meaning"),
        (("rate: 0/min", "burst: 3"), "burst with a rate of 0"),
        (("rate: 0/min", "preset: strict"), "preset with a rate of 0"),
        (("rate: unlimited", "burst: 3"), "burst with rate: unlimited"),
        (("rate: 5/min", "burst: 3", "preset: strict"), "preset and burst together"),
        (("rate: 5/min; 10/h", "burst: 3"), "burst with several rates"),
        (("rate: 5/min; 10/60s",), "two rates have the same period"),
        (("rate: 5/min burst 3",), "burst is a field of its own here"),
        (("rate: 100001/min", "algorithm: sliding_log"), "at most 100,000, not 100,001"),
        (("rate: 5000000000M/s", "preset: generous"), "2^53 or more"),
        (("rate: 6004799503160661/s", "preset: generous"), "2^53 or more"),
        (("rate: 9007199254740992/s",), "2^53 or more"),
        (("rate: 1/s", "burst: 9007199254740992"), "out of bounds"),
        (("rate: 1/s", "per: tenant"), "expected a list, found text"),
        (("rate: 1/s", "per: [a, b, a]"), '"a" stands twice'),
        (("rate: 1/s", "per: [a, '']"), "must not be empty"),
        (("rate: 1/s", "when:"), "expected a mapping, found nothing"),
        (("rate: 1/s", "when: {'': a}"), "must not be empty"),
        (("rate:",), "expected text, found nothing"),
        (("rate: {n: 5}",), "expected text, found a mapping"),
        (("rate: 1/s", "burst: [1]"), "expected text, found a list"),
        (("rate: 1/s", "missing: ignore"), 'unknown missing "ignore"'),
        (("rate: 1/s", "preset: lax"), 'unknown preset "lax"'),
        (("rate: 1/s", "counts: ''"), "must not be empty"),
        (("per: [ip]",), '"rate" is missing'),
    ],
)
def test_what_does_not_go_together_in_a_limit_is_an_error(
    lines: tuple[str, ...], message: str
) -> None:
    problems = load_policy(limit(*lines)).errors
    assert len(problems) == 1, problems
    assert message in problems[0].message


@pytest.mark.parametrize("head", ["id: ''", "id:", r'id: "a\r\nb"', "id: [a]", f"id: {'x' * 201}"])
def test_an_id_is_one_line_of_text(head: str) -> None:
    assert only(limit("rate: 1/s", head=head)).path.endswith("limits[0].id")


def test_a_domain_has_a_name_and_a_file_a_version() -> None:
    assert only("version: 1\ndomains: {'': {}}").message == "a domain's name must not be empty"
    assert only("domains: {}").message == '"version" is missing'
    assert only("version: 2").hint == "write version: 1"
    assert only("").message == "the file is empty"
    assert only("# nothing\n").message == "the file is empty"
    assert "expected a mapping" in only("- a").message
    assert "expected a mapping" in only("hello").message


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        ("a*b", "a star means a prefix", "{regex: '^a.*b$'}, or {exact: \"a*b\"}"),
        ("'*a'", "a star means a prefix", "^.*a$"),
        ("a**", "a star means a prefix", "regex"),
        ("{regexp: a}", 'unknown matcher "regexp"', 'did you mean "regex"?'),
        ("{regex: a, exact: b}", "expected one of", "regex"),
        ("{}", "expected one of", "regex"),
        ("[]", "matches nothing", "*"),
        ("", "found nothing", 'write ""'),
        ("{cidr: 10.0.0.1/8}", "bits are set", "10.0.0.0/8"),
        ("{cidr: 10.0.0.300}", "is no network", "10.0.0.0/8"),
        ("{cidr: 'fe80::1%eth0'}", "zone id", "%"),
        ("{cidr: [10.0.0.0/8]}", "expected text, found a list", "[{cidr: …}"),
        ("{not: {not: a}}", "not within not", ""),
        ("{not: a, exact: b}", "not stands alone", ""),
        ("[{not: a}]", 'unknown matcher "not"', "outside"),
        ("[[a]]", "found a list", ""),
        (f"{{regex: {'a' * 1001}}}", "longer than 1000", ""),
    ],
)
def test_a_matcher_that_cannot_be_is_told_with_its_fix(
    written: str, message: str, hint: str
) -> None:
    problem = only(limit("rate: 1/s", f"when: {{route: {written}}}"))
    assert message in problem.message
    assert hint in problem.hint


def test_every_mistake_of_a_list_is_told_at_its_own_place() -> None:
    result = load_policy(limit("rate: 1/s", "when: {r: [ok, a*b, {cidr: x}, c*d]}"))
    assert [problem.path.partition("when")[2] for problem in result.problems] == [
        ".r[1]", ".r[2].cidr", ".r[3]",
    ]  # fmt: skip


def test_the_regex_check_that_is_given_is_used() -> None:
    def check(pattern: str) -> str | None:
        return "regex parse error:\n  (\n  ^\nerror: unclosed group" if pattern == "(" else None

    text = limit("rate: 1/s", "when: {a: {regex: '('}, b: {not: [{regex: '('}, {regex: x}]}}")
    result = load_policy(text, check_regex=check)
    assert [problem.message for problem in result.problems] == [
        'the regex "(" cannot be used: unclosed group'
    ] * 2
    assert load_policy(text).document is not None


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a directory"):
        load_policy(tmp_path)
    with pytest.raises(ConfigError):
        load_policy(Path("a\0b"))


def test_what_is_printed_holds_no_control_characters() -> None:
    text = limit("rate: 1/s", r'"\e[31m\u202e": "x\e[0m"')
    assert all(char.isprintable() for char in str(only(text)))


def test_a_long_path_of_a_file_is_never_cut() -> None:
    name = "folder/" * 40 + "p.yaml"
    (problem,) = load_policy("version: 2", name).problems
    assert problem.place == f"{name}:1:10"


def test_thousands_of_mistakes_are_all_told() -> None:
    tenants = "".join(f"      t{index}: {{plan: prp}}\n" for index in range(5000))
    text = f"{BASE}    plans: {{pro: {{}}}}\n    tenants:\n{tenants}"
    problems = load_policy(text).problems
    assert [problem.line for problem in problems] == list(range(11, 5011))
    assert {problem.hint for problem in problems} == {'did you mean "pro"?'}

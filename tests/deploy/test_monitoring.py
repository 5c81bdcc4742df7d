"""Alerts and dashboard ask for metrics that a running node has, under labels that it gives them."""

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.files import DEPLOY
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
POLICY = "{version: 1, domains: {d: {limits: [{id: l, rate: 5/min}]}}}"
OF_THE_SCRAPE = {"instance", "job"}

_METRIC = re.compile(r"\b(tidegate_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"')
_BY = re.compile(r"\bby \(([^)]*)\)")
_DASHBOARD_ONLY = re.compile(r"label_values\((\w+), (\w+)\)")


def alerts() -> list[dict[str, Any]]:
    """All alerting rules."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_expressions() -> list[str]:
    """Every question that the dashboard asks."""
    board = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [one["expr"] for one in board["annotations"]["list"]]
    return [
        *found,
        *(one["definition"] for one in board["templating"]["list"] if "definition" in one),
    ]


def metrics_page(node: Tidegate) -> str:
    """What the node answers to Prometheus."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics") as answer:
        text: str = answer.read().decode()
    return text


@pytest.fixture(scope="module")
def metrics(
    tmp_path_factory: pytest.TempPathFactory, shared_valkey: StoreServer
) -> dict[str, set[str]]:
    """The labels of each metric, from a node with its own counters and one with a store."""
    found: dict[str, set[str]] = {}
    for store in (None, shared_valkey.url):
        with Tidegate(POLICY, tmp_path_factory.mktemp("node"), store=store) as node:
            text = metrics_page(node)
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)", text, re.MULTILINE):
            parts = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            for part in parts:
                found.setdefault(f"{name}{part}", set())
        for name, labels in re.findall(r"^(tidegate_\w+)\{([^}]*)\}", text, re.MULTILINE):
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    found["tidegate_degraded_decisions_total"] |= {"reason"}  # has rows once there are some
    return found


def test_every_metric_and_label_exists(metrics: dict[str, set[str]]) -> None:
    questions = [rule["expr"] for rule in alerts()] + dashboard_expressions()
    assert len(questions) > 20
    for question in questions:
        asked = _METRIC.findall(question)
        assert asked or question.startswith("up{"), question
        for name, matchers in asked:
            assert name in metrics, f"{name}: no node has it"
            labels = set(_MATCHER.findall(matchers))
            assert labels <= metrics[name] | OF_THE_SCRAPE, question
        every = OF_THE_SCRAPE.union(*(metrics[name] for name, _ in asked))
        for labels_text in _BY.findall(question):
            assert set(labels_text.replace(" ", "").split(",")) <= every, question
    for name, label in _DASHBOARD_ONLY.findall("\n".join(questions)):
        assert label in metrics[name] | OF_THE_SCRAPE


def test_decisions_without_the_store_come_first() -> None:
    first, second, *_ = alerts()
    assert "tidegate_degraded_decisions_total" in first["expr"]
    assert "tidegate_store_connections" in second["expr"]
    assert first["labels"]["severity"] == "critical"
    assert "for" not in first  # at once


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description"}
    labels = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    by = {name for text in _BY.findall(rule["expr"]) for name in re.findall(r"\w+", text)}
    assert labels <= (by or {"instance", "door", "job"})


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_prometheus_takes_the_alerts_and_they_do_what_their_tests_say() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on this machine: apt-get install prometheus")
    for arguments in (
        ["check", "rules", str(ALERTS)],
        ["test", "rules", str(ALERTS.with_name("alerts.test.yaml"))],
    ):
        done = subprocess.run(
            [promtool, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_tests_of_the_alerts_name_alerts() -> None:
    cases = yaml.safe_load(Path(ALERTS.with_name("alerts.test.yaml")).read_text())["tests"]
    named = {one["alertname"] for case in cases for one in case["alert_rule_test"]}
    assert named <= {rule["alert"] for rule in alerts()}
    assert "TidegateDecidesWithoutStore" in named

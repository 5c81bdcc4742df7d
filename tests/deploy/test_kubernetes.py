"""The manifests: they fit together, and hold what Tidegate reads from them."""

import tomllib
from typing import Any

import pytest

from tests.deploy.files import DEPLOY, DRAIN_LIMIT_S, objects, settings_of
from tests.docs.pages import ROOT, page
from tidegate.compiler import compile_policy

OBJECTS = list(objects(DEPLOY / "kubernetes"))
FOLDER = "/etc/tidegate"


def of_kind(kind: str) -> list[dict[str, Any]]:
    """The objects of a kind."""
    return [one for one in OBJECTS if one["kind"] == kind]


@pytest.fixture
def pod() -> dict[str, Any]:
    (deployment,) = of_kind("Deployment")
    template: dict[str, Any] = deployment["spec"]["template"]
    return template


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def test_all_select_the_same_pods(pod: dict[str, Any]) -> None:
    labels = pod["metadata"]["labels"].items()
    (deployment,), (budget,) = of_kind("Deployment"), of_kind("PodDisruptionBudget")
    selectors = [one["spec"]["selector"]["matchLabels"] for one in (deployment, budget)]
    selectors += [one["spec"]["selector"] for one in of_kind("Service")]
    assert len(selectors) >= 4
    for selector in selectors:
        assert selector
        assert selector.items() <= labels


def test_the_policy_is_valid_and_where_the_node_looks_for_it(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    (config,) = of_kind("ConfigMap")
    (name,) = config["data"]
    compiled = compile_policy(config["data"][name].encode(), "policy.yaml")
    assert not compiled.problems
    (volume,), (mount,) = pod["spec"]["volumes"], container["volumeMounts"]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], FOLDER)
    assert "subPath" not in mount
    assert settings_of(container["args"], {}).policy == f"{FOLDER}/{name}"


def test_flags_and_variables_are_settings_and_secrets_come_from_a_secret(
    container: dict[str, Any],
) -> None:
    secrets = {"TIDEGATE_STORE": "redis://h", "TIDEGATE_ADMIN_TOKEN": "t"}
    assert {one["name"] for one in container["env"]} == set(secrets)
    assert all("secretKeyRef" in one["valueFrom"] for one in container["env"])
    settings = settings_of(container["args"], secrets)
    assert settings.store == "redis://h"  # nodes share their counters


def test_ports_are_those_that_the_node_serves(container: dict[str, Any]) -> None:
    settings = settings_of(container["args"], {})
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert {"http": settings.http, "grpc": settings.grpc} == {
        name: f"0.0.0.0:{port}" for name, port in ports.items()
    }
    for service in of_kind("Service"):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    assert container["readinessProbe"]["grpc"]["port"] == ports["grpc"]
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports


def test_a_node_has_the_time_to_drain(pod: dict[str, Any], container: dict[str, Any]) -> None:
    notice_s = settings_of(container["args"], {}).drain_notice_us / 1_000_000
    assert notice_s > container["readinessProbe"]["periodSeconds"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= notice_s + DRAIN_LIMIT_S


def test_the_image_is_the_version_that_the_page_says_how_to_build(
    container: dict[str, Any],
) -> None:
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    image = f"tidegate:{manifest['workspace']['package']['version']}"
    assert container["image"] == image
    assert f"-t {image} ." in page("docs/deploy.md").text


def test_a_change_of_version_takes_no_node_away_before_another_is_there() -> None:
    (deployment,) = of_kind("Deployment")
    assert deployment["spec"]["replicas"] > 1
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_a_node_has_no_more_rights_than_it_needs(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    spec = pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec["automountServiceAccountToken"]
    assert not spec["enableServiceLinks"]
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"]
    assert not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in container["resources"]["limits"]

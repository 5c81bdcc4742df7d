"""The metrics of a running node are those of docs/operations.md, and the rights are enough."""

import re
import urllib.request
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer
from tidegate import Limiter

_ROW = re.compile(r"^\| `(tidegate_\w+)` \| (\w+) \| ([^|]*)\|", re.MULTILINE)
_TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
_SAMPLE = re.compile(r"^(tidegate_\w+)\{([^}]*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="')


def test_metrics_are_those_of_the_page(tmp_path: Path, shared_valkey: StoreServer) -> None:
    policy = (ROOT / "examples/shop.yaml").read_text()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        Tidegate(policy, tmp_path / "a") as in_memory,
        Tidegate(policy, tmp_path / "b", store=shared_valkey.url) as in_store,
    ):
        pages = [_metrics(node) for node in (in_memory, in_store)]
    shown = {name: kind for name, kind, _ in _ROW.findall(page("docs/operations.md").text)}
    assert shown == {name: kind for text in pages for name, kind in _TYPE.findall(text)}


def test_labels_are_those_of_the_page(tmp_path: Path) -> None:
    with Tidegate((ROOT / "examples/shop.yaml").read_text(), tmp_path) as node:
        samples = _SAMPLE.findall(_metrics(node))
    rows = _ROW.findall(page("docs/operations.md").text)
    shown = {name: re.findall(r"`(\w+)`", labels) for name, _, labels in rows}
    for name, labels in samples:
        family = re.sub("_(bucket|sum|count)$", "", name)
        if family in shown and "le" in shown[family]:
            told = shown[family] if name.endswith("_bucket") else shown[family][:-1]
            assert _LABEL.findall(labels) == told, name
        else:
            assert _LABEL.findall(labels) == shown[name], name


def test_reasons_of_degraded_decisions_are_those_of_the_page() -> None:
    rust = (ROOT / "crates/counters/src/redis/error.rs").read_text()
    reasons = re.findall(r'Self::\w+(?: \{ \.\. \})? => "(\w+)"', rust)
    row = next(line for line in page("docs/operations.md").text.splitlines() if "`reason`" in line)
    assert reasons
    assert set(reasons) == set(re.findall(r"`(\w+)`", row.split("|")[4]))


@pytest.mark.parametrize(
    "algorithm", ["token_bucket", "fixed_window", "sliding_window", "sliding_log"]
)
def test_a_user_with_the_rights_of_the_page_can_do_everything(
    algorithm: str, shared_valkey: StoreServer
) -> None:
    redis = pytest.importorskip("redis")
    blocks = page("docs/operations.md").blocks
    rights = next(block.text.split() for block in blocks if block.text.startswith("+eval"))
    admin = redis.Redis(port=shared_valkey.port)
    admin.execute_command("ACL", "SETUSER", "least", "reset", "on", ">pw", *rights)
    url = f"redis://least:pw@127.0.0.1:{shared_valkey.port}"
    with Limiter(url, on_store_failure="raise", store_timeout=2) as limiter:
        limit = limiter.limit("3 per 365 days", id=f"rights-{algorithm}", algorithm=algorithm)
        assert [bool(limit.hit(cost=cost)) for cost in (2, 1, 1)] == [True, True, False]
        assert limit.refund(cost=2).limits[0].remaining == 2
        limit.reset()
        assert limit.peek(cost=3)
    admin.close()


def _metrics(node: Tidegate) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics") as answer:
        text: str = answer.read().decode()
    return text

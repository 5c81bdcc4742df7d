"""The Dockerfile: two stages, no root, and a command that `tidegate` takes."""

import json
import re
import shlex

from tests.deploy.files import DEPLOY, settings_of
from tests.docs.pages import ROOT, page

FILE = DEPLOY / "Dockerfile"
LINES = [
    line.split(maxsplit=1)
    for line in FILE.read_text().replace("\\\n", "").splitlines()
    if line and not line.startswith("#")
]


def said(word: str) -> list[str]:
    """What follows an instruction, wherever it stands."""
    return [rest for first, rest in LINES if first == word]


def test_it_builds_in_one_stage_and_runs_in_another_without_root() -> None:
    stages = said("FROM")
    assert len(stages) == 2
    assert " AS " in stages[0]
    last = max(at for at, (first, _) in enumerate(LINES) if first == "FROM")
    assert not any(first == "COPY" for first, _ in LINES[last:])  # no source in the image
    (user,) = (rest for first, rest in LINES[last:] if first == "USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)


def test_its_user_owns_the_folder_in_which_counters_may_be_kept() -> None:
    (user,) = said("USER")
    owner, group = user.split(":")
    assert f"install -d -m 700 -o {owner} -g {group} /var/lib/tidegate" in said("RUN")
    text = page("docs/deploy.md").text
    assert "-v tidegate:/var/lib/tidegate -e TIDEGATE_STATE_FILE=/var/lib/tidegate/" in text


def test_what_it_copies_is_there_and_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    copied = [name for rest in said("COPY") for name in shlex.split(rest)[:-1]]
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    manifest = (ROOT / "Cargo.toml").read_text()
    members = re.search(r"^members = \[(.*)\]", manifest, re.MULTILINE)
    assert members
    for member in re.findall(r'"([^"]+)"', members[1]):
        assert any(member.startswith(name) for name in copied), f"{member} is not copied"


def test_its_command_can_be_used_and_its_ports_are_those_exposed() -> None:
    (entry,), (command,) = said("ENTRYPOINT"), said("CMD")
    assert json.loads(entry) == ["tidegate"]
    settings = settings_of(json.loads(command), {})
    ports = [address.rpartition(":")[2] for address in (settings.http, settings.grpc)]
    assert said("EXPOSE") == [" ".join(ports)]
    assert f"127.0.0.1:{ports[0]}/healthz" in said("HEALTHCHECK")[0]

"""Everything on a page that can be run is run, as it stands there; every policy is valid."""

import doctest
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.answers import is_same
from tests.docs.pages import Block, page, page_names
from tests.docs.session import Session
from tests.servers.valkey import StoreServer
from tidegate.compiler import compile_policy

SHELL = ("sh", "console")
PYTHON = ("python", "pycon")
ELSEWHERE = {
    "docs/envoy.md": "its commands and files run in tests/e2e, with a real Envoy",
    "docs/several-nodes.md": "its commands run in test_several_nodes.py, with an Envoy",
}
"""Pages whose snippets another test runs."""

PAGES = [name for name in page_names() if name not in ELSEWHERE]


def _with(*languages: str) -> list[str]:
    return [name for name in PAGES if any(_blocks(name, *languages))]


def _blocks(name: str, *languages: str) -> Iterator[Block]:
    return (block for block in page(name).blocks if block.language in languages and block.is_run)


@pytest.fixture
def session(tmp_path: Path, shared_valkey: StoreServer) -> Iterator[Session]:
    with Session(tmp_path, shared_valkey) as opened:
        yield opened


@pytest.mark.parametrize("name", _with(*SHELL))
def test_commands_do_and_answer_what_the_page_says(name: str, session: Session) -> None:
    for block in _blocks(name, *SHELL):
        session.run(block)


@pytest.mark.parametrize("name", _with(*PYTHON))
def test_python_does_and_answers_what_the_page_says(
    name: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(session.folder)
    names: dict[str, Any] = {}
    for block in _blocks(name, *PYTHON):
        text = session.rewritten(block.text)
        if block.language == "python":
            exec(compile("\n" * block.line + text, block.page, "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(text, names, block.place, block.page, block.line)
        said = io.StringIO()
        found = doctest.DocTestRunner(_Checker(), optionflags=doctest.ELLIPSIS).run(
            test, out=said.write, clear_globs=False
        )
        assert not found.failed, said.getvalue()
        names = test.globs


@pytest.mark.parametrize("name", _with("yaml"))
def test_policies_are_valid_and_without_warnings(name: str) -> None:
    for block in _blocks(name, "yaml"):
        compiled = compile_policy(_whole(block.text), block.place)
        assert not compiled.problems, os.linesep.join(map(str, compiled.problems))


@pytest.mark.parametrize("name", PAGES)
def test_a_block_is_of_a_kind_that_is_tested_or_plain_text(name: str) -> None:
    known = {*SHELL, *PYTHON, "yaml", "text"} | ({""} if name == "ARCHITECTURE.md" else set())
    for block in page(name).blocks:
        assert block.language in known, f"{block.place}: say its language, or text"


class _Checker(doctest.OutputChecker):
    """Compares as for commands."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:  # noqa: ARG002
        return is_same(want.replace("...", "…"), got)


def _whole(text: str) -> str:
    """A list of limits becomes a policy."""
    if text.startswith("version:"):
        return text
    limits = "".join(f"      {line}" for line in text.splitlines(keepends=True))
    return f"version: 1\ndomains:\n  page:\n    tenant_key: tenant\n    limits:\n{limits}"

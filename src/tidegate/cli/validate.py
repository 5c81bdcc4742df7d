"""`tidegate validate`: checks policy files and prints all of their problems."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.compiler import Compiled, compile_policy
from tidegate.errors import ConfigError
from tidegate.policy.problems import Problem, printable

if TYPE_CHECKING:
    import argparse

    from tidegate.policy.document import Document

_HELP = """
exit codes: 0 all files are valid (warnings are printed), 1 one is not, 2 one cannot be read
"""


@dataclass(frozen=True, slots=True)
class _Checked:
    name: str
    result: Compiled | None
    unreadable: str = ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.result.problems if self.result else ()

    @property
    def is_valid(self) -> bool:
        return self.result is not None and self.result.snapshot is not None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a policy file (YAML)")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="default: text, for people"
    )
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:
    """Checks each file; 0 if all are valid, 1 if one is not, 2 if one cannot be read."""
    checked = [_check(name) for name in args.files]
    if args.format == "json":
        print(json.dumps(_as_json(checked), indent=2, ensure_ascii=False))
    else:
        _print_text(checked)
    for one in checked:
        if one.unreadable:
            print(f"tidegate: error: {one.unreadable}", file=sys.stderr)
    if any(one.unreadable for one in checked):
        return 2
    return 0 if all(one.is_valid for one in checked) else 1


def _check(name: str) -> _Checked:
    try:
        return _Checked(name, compile_policy(Path(name), name))
    except ConfigError as error:
        return _Checked(name, None, str(error))


def _print_text(checked: list[_Checked]) -> None:
    for one in checked:
        for problem in one.problems:
            print(f"{problem.place}: {problem.severity}: {problem.message}")
            if problem.path:
                print(f"    at   {problem.path}")
            if problem.hint:
                print(f"    fix  {problem.hint}")
        if one.problems:
            print()
    for one in checked:
        if one.result is not None:
            print(f"{printable(one.name)}: {_summary(one.result)}")
    if len(checked) > 1:
        valid = sum(one.is_valid for one in checked)
        print(f"{len(checked)} files: {valid} valid, {len(checked) - valid} not")


def _summary(result: Compiled) -> str:
    errors = sum(problem.is_error for problem in result.problems)
    warnings = len(result.problems) - errors
    counts = [_counted(errors, "error")] if errors else []
    counts += [_counted(warnings, "warning")] if warnings else []
    if result.document is None or result.snapshot is None:
        return f"invalid, {', '.join(counts)}"
    said = f"valid, {', '.join([*counts, *_contents(result.document)])}"
    return f"{said} (revision {result.snapshot.revision})"


def _contents(document: Document) -> list[str]:
    domains = document.domains.values()
    sizes = {
        "domain": len(domains),
        "limit": sum(len(domain.limits) for domain in domains),
        "plan": sum(len(domain.plans) for domain in domains),
        "tenant": sum(len(domain.tenants) for domain in domains),
    }
    return [_counted(size, name) for name, size in sizes.items()]


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _as_json(checked: list[_Checked]) -> dict[str, object]:
    problems = [problem for one in checked for problem in one.problems]
    errors = sum(problem.is_error for problem in problems)
    return {
        "valid": all(one.is_valid for one in checked),
        "errors": errors,
        "warnings": len(problems) - errors,
        "files": [
            {
                "file": one.name,
                "valid": one.is_valid,
                "unreadable": one.unreadable or None,
                "revision": one.result.snapshot.revision
                if one.result is not None and one.result.snapshot is not None
                else None,
                "problems": [_problem(problem) for problem in one.problems],
            }
            for one in checked
        ],
    }


def _problem(problem: Problem) -> dict[str, object]:
    return {
        "severity": problem.severity.value,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint or None,
    }

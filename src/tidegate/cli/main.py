"""The entry of the `tidegate` command: finds the command and loads that one alone."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, cast

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from collections.abc import Sequence

OK: Final = 0
NO: Final = 1
CANNOT_RUN: Final = 2
_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141

COMMANDS: dict[str, tuple[str, str]] = {
    "dev": ("tidegate.cli.dev", "run everything here on loopback, to try a policy"),
    "serve": ("tidegate.cli.serve", "run a node of the service"),
    "config": ("tidegate.cli.config", "print the settings in force, and where each comes from"),
    "hit": ("tidegate.cli.hit", "ask whether a request may pass, and why not"),
    "explain": ("tidegate.cli.explain", "say why a request was denied, or what would apply to one"),
    "hot": ("tidegate.cli.hot", "say which counters most decisions of a node meet"),
    "validate": ("tidegate.cli.validate", "check policy files, all problems at once"),
    "schema": ("tidegate.cli.schema", "print the JSON Schema with which editors check policies"),
}
"""Each command: the module that has `add_arguments` and `run`, and what it does."""

_FIRST_STEPS = (
    ("dev", "tidegate dev examples/shop.yaml", "run everything here, with that policy"),
    ("hit", "tidegate hit shop tenant=acme route=/search", "ask whether a request may pass"),
    ("validate", "tidegate validate policy.yaml", "check a policy before it is used"),
    (
        "schema",
        "tidegate schema > tidegate.schema.json",
        "let your editor check it while you write",
    ),
)


class Command(Protocol):
    """What the module of a command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Does the work; returns 0, 1 where the answer is no, or 2 where it cannot run."""


class _Parser(argparse.ArgumentParser):
    """Says what was meant by an option that does not exist."""

    def error(self, message: str) -> NoReturn:
        unknown = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
        if "unrecognized" in message and unknown:
            message += _nearest(unknown[0], [*self._option_string_actions])
        super().error(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except TidegateError as error:
        print(f"tidegate: error: {error}", file=sys.stderr)
        return CANNOT_RUN
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes once more at exit; give it something to write to.
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return _BROKEN_PIPE
    return code


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name in {"-h", "--help", "help"}:
        if len(arguments) > 1 and arguments[1] in COMMANDS:
            return _run(arguments[1], ["--help"])
        print(_help())
        return OK if arguments else CANNOT_RUN
    if name in {"-V", "--version", "version"}:
        print(f"tidegate {_version()}")
        return OK
    if name in COMMANDS:
        return _run(name, arguments[1:])
    known = [*COMMANDS, "--help", "--version"]
    what = "option" if name.startswith("-") else "command"
    print(f'tidegate: error: unknown {what} "{name[:60]}"{_nearest(name, known)}', file=sys.stderr)
    print("Try: tidegate --help", file=sys.stderr)
    return CANNOT_RUN


def _run(name: str, arguments: list[str]) -> int:
    module_name, summary = COMMANDS[name]
    command = cast("Command", import_module(module_name))
    parser = _Parser(
        prog=f"tidegate {name}",
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    try:
        args = parser.parse_args(arguments)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else CANNOT_RUN
    return command.run(args)


def _help() -> str:
    lines = [
        "Tidegate, a distributed rate limiter: a gateway or an app asks, may this request pass?",
        "",
        "usage: tidegate COMMAND [ARGUMENTS]     tidegate COMMAND --help says more",
        "",
        "commands:",
    ]
    lines += [f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items()]
    steps = [(example, why) for name, example, why in _FIRST_STEPS if name in COMMANDS]
    width = max(len(example) for example, _ in steps)
    lines += ["", "first steps:"]
    lines += [f"  {example:<{width}}  # {why}" for example, why in steps]
    lines += ["", "exit codes: 0 done, 1 the answer is no (invalid, denied), 2 cannot run"]
    return "\n".join(lines)


def _nearest(name: str, known: Sequence[str]) -> str:
    import difflib  # noqa: PLC0415  only a mistake needs it

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  slow to load

    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())

"""`tidegate schema`: prints the JSON Schema of policy files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.policy.schema import json_schema

if TYPE_CHECKING:
    import argparse

_HELP = """
Save it, and name it in the first line of a policy file:
  # yaml-language-server: $schema=tidegate.schema.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments; there are none."""
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:  # noqa: ARG001  every command has this form
    """Prints the schema."""
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0

"""What docs/proxies.md shows stands in the files of examples/, and its doors can be opened."""

import json
from pathlib import Path

from tests.docs.pages import page
from tests.servers.proxies import EXAMPLES, KINDS
from tidegate.settings.forward_auth import FIELDS, read_doors

PAGE = page("docs/proxies.md")
TESTED = ("doors.toml", *(name for kind in KINDS.values() for name in kind.files))


def _parts(first: str, last: str) -> list[str]:
    """The blocks of text between two headings."""
    lines = PAGE.text.splitlines()
    start, end = lines.index(first), lines.index(last)
    return [block.text for block in PAGE.blocks if start < block.line < end]


def test_what_the_page_shows_of_the_examples_stands_in_them() -> None:
    examples = "\n".join((EXAMPLES / name).read_text() for name in TESTED)
    parts = _parts("## Doors", "## Traefik")
    shown = [text for text in parts if not text.startswith("tidegate")]
    assert len(shown) >= 8
    for part in shown:
        assert part in examples, part


def test_doors_of_other_proxies_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "doors.toml"
    texts = [block.text for block in PAGE.blocks if block.text.startswith("[forward_auth.")]
    file.write_text("\n".join(texts))
    assert set(json.loads(read_doors(str(file)))) == {"nginx", "traefik", "caddy", "envoy"}


def test_every_field_of_a_door_is_explained() -> None:
    rows = "".join(line for line in PAGE.text.splitlines() if line.startswith("| `"))
    assert all(f"`{name}`" in rows for name in FIELDS)

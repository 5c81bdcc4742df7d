"""The pages of the documentation, and what stands in them: code blocks, headings, links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+) -->")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)$")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of its fence."""

    page: str
    line: int
    language: str
    text: str
    is_run: bool

    @property
    def place(self) -> str:
        """`page:line`."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    name: str
    text: str

    @property
    def blocks(self) -> list[Block]:
        """All fenced blocks, in order."""
        return _blocks(self)

    @property
    def headings(self) -> list[str]:
        """The texts of all headings."""
        return [found["text"] for line in self._prose() if (found := _HEADING.match(line))]

    @property
    def anchors(self) -> set[str]:
        """What a link to a heading of this page says after the `#`."""
        return {_anchor(heading) for heading in self.headings}

    @property
    def links(self) -> list[str]:
        """The targets of all links."""
        return [found["target"] for line in self._prose() for found in _LINK.finditer(line)]

    def _prose(self) -> list[str]:
        inside, lines = False, []
        for line in self.text.splitlines():
            if line.lstrip().startswith("```"):
                inside = not inside
            elif not inside:
                lines.append(line)
        return lines


def page(name: str) -> Page:
    """A page by its path from the root of the repository."""
    return Page(name, (ROOT / name).read_text())


def page_names() -> list[str]:
    """Every page that users read."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def _blocks(whole: Page) -> list[Block]:
    blocks: list[Block] = []
    start, language, lines, is_run = 0, "", [""], True
    before = ""
    for number, line in enumerate(whole.text.splitlines(), 1):
        fence = _FENCE.match(line)
        if start and line.strip() == "```":
            blocks.append(Block(whole.name, start, language, "\n".join(lines) + "\n", is_run))
            start, before = 0, ""
        elif start:
            lines.append(line)
        elif fence:
            start, language, lines = number, fence["language"], []
            is_run = NOT_RUN.fullmatch(before) is None
        elif line.strip():
            before = line.strip()
    return blocks


def _anchor(heading: str) -> str:
    """As GitHub makes it: lower case, words joined by dashes, punctuation left out."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")

"""Where a limit on a shared store is decided, as a policy writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, cast, get_args

from pydantic import PlainValidator, WithJsonSchema

from tidegate.errors import ConfigError
from tidegate.policy.fields import described, mistake
from tidegate.policy.problems import did_you_mean, quoted
from tidegate.policy.rates import parse_count

Word = Literal["exact", "local", "auto"]
Split = Literal["sampled", "sharded"]

WORDS: tuple[Word, ...] = get_args(Word)
SPLITS: dict[Split, tuple[int, int]] = {"sampled": (2, 1_000_000), "sharded": (2, 64)}
"""The words that take a number, and which."""

LEAST_SAMPLED = 10_000
"""A sampled limit of so many requests (or tokens of burst) for each above the first that one
question stands for keeps its error in proportion."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Where a limit is decided.

    Attributes:
        mode: The word.
        parts: Its number; 1 where it takes none.
    """

    mode: Word | Split = "exact"
    parts: int = 1

    def __str__(self) -> str:
        return self.mode if self.mode in WORDS else f"{{{self.mode}: {self.parts}}}"

    @property
    def plain(self) -> str | dict[str, int]:
        """As snapshots write it."""
        return self.mode if self.mode in WORDS else {self.mode: self.parts}


EXACT = Consistency()


def _read(value: object) -> Consistency:
    if isinstance(value, Consistency):
        return value
    if isinstance(value, str):
        return Consistency(_word(value))
    if isinstance(value, dict) and len(value) == 1:
        ((word, number),) = value.items()
        if word in SPLITS:
            split = cast("Split", word)
            return Consistency(split, _parts(split, number))
        return Consistency(_word(str(word), is_alone=False))
    raise mistake(f"expected a word, found {described(value)}", f"one of {_known()}")


def _word(written: str, *, is_alone: bool = True) -> Word:
    split = written.partition(":")[0].strip()
    if split in SPLITS:
        example = written if ":" in written else f"{split}: 10"
        raise mistake(f"{quoted(written)} needs its number", f"write {{{example}}}")
    if written not in WORDS:
        hint = did_you_mean(written, (*WORDS, *SPLITS)) or f"one of {_known()}"
        raise mistake(f"unknown consistency {quoted(written)}", hint)
    if not is_alone:
        raise mistake(f"{written} takes no number", f"write consistency: {written}")
    return written


def _parts(split: Split, written: object) -> int:
    least, most = SPLITS[split]
    hint = f"{{{split}: K}} takes a whole number from {least} to {most:,}"
    try:
        number = parse_count(written) if isinstance(written, str) else written
    except ConfigError as error:
        raise mistake(error.message, hint) from None
    if not isinstance(number, int) or not least <= number <= most:
        what = number if isinstance(number, int) else described(number)
        raise mistake(f"{split}: {what}", hint)
    return number


def _known() -> str:
    return ", ".join((*WORDS, *(f"{{{split}: K}}" for split in SPLITS)))


_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": list(WORDS)},
        *(
            {
                "type": "object",
                "required": [split],
                "additionalProperties": False,
                "properties": {
                    split: {
                        "type": ["integer", "string"],
                        "minimum": least,
                        "maximum": most,
                        "pattern": r"^\s*[0-9]+[kM]?\s*$",
                    }
                },
            }
            for split, (least, most) in SPLITS.items()
        ),
    ]
}

ConsistencyField = Annotated[Consistency, PlainValidator(_read), WithJsonSchema(_SCHEMA)]

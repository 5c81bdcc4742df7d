"""Reading YAML as text: nothing is guessed, nothing is lost, nothing explodes."""

from __future__ import annotations

import time

import pytest

from tidegate.policy.yaml_text import MAX_ALIASED_VALUES, Source, Syntax, decode, read_yaml


def read(text: str) -> Source:
    source = read_yaml(text)
    assert isinstance(source, Source), source
    return source


def refused(text: str) -> Syntax:
    syntax = read_yaml(text)
    assert isinstance(syntax, Syntax), syntax
    return syntax


@pytest.mark.parametrize(
    "word",
    [
        "0123",
        "no",
        "Yes",
        "12:30",
        "1e3",
        "0x1F",
        "~",
        "null",
        "1_000",
        "2026-01-01",
        ".inf",
        "=",
        "é",
    ],
)
def test_keys_and_values_are_the_text_as_written(word: str) -> None:
    assert read(f"{word}: {word}").value == {word: word}
    assert read(f"[{word}]").value == [word]


def test_an_empty_value_is_nothing_and_quotes_make_it_text() -> None:
    assert read("a:\nb: ''\nc: \"\"").value == {"a": None, "b": "", "c": ""}


def test_a_repeated_key_is_told_at_its_second_place() -> None:
    source = read("a: 1\nb: 2\na: 3\n")
    (finding,) = source.findings
    assert finding.place == (3, 1)
    assert "stands twice" in finding.message
    assert "line 1" in finding.hint


def test_keys_that_differ_as_text_are_different_keys() -> None:
    assert read("1: a\n01: b\n'1 ': c").value == {"1": "a", "01": "b", "1 ": "c"}


def test_an_alias_repeats_a_whole_value() -> None:
    source = read("a: &x {k: [1, 2]}\nb: *x\n")
    assert source.value == {"a": {"k": ["1", "2"]}, "b": {"k": ["1", "2"]}}
    assert not source.findings


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    begin = time.perf_counter()
    source = read("\n".join(lines))
    assert time.perf_counter() - begin < 1
    (finding,) = source.findings
    assert f"{MAX_ALIASED_VALUES:,}" in finding.message


def test_an_anchor_that_contains_itself_is_refused() -> None:
    (finding,) = read("a: &x {b: [*x]}").findings
    assert "cannot contain itself" in finding.message


@pytest.mark.parametrize("text", ["[" * 60 + "]" * 60, "- " * 60 + "a"])
def test_deep_nesting_is_refused(text: str) -> None:
    (finding,) = read(text).findings
    assert "deep" in finding.message


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000 + "a", "{a: " * 100_000, "? " * 9999]
)
def test_very_deep_nesting_is_refused_and_breaks_no_stack(text: str) -> None:
    assert "nesting" in refused(text).message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int 5", 'tags such as "!!int"'),
        ("a: !python/object:os.system x", "tags such as"),
        ("!!set {a: b}", "tags such as"),
        ("<<: {a: b}", "merge keys"),
        (": x\n", "did not find expected key"),
        ("? \n: x", "a key is missing"),
        ("? [a]\n: b", "a key must be text"),
    ],
)
def test_what_has_no_meaning_here_is_refused(text: str, message: str) -> None:
    result = read_yaml(text)
    told = result.message if isinstance(result, Syntax) else result.findings[0].message
    assert message in told


def test_text_that_looks_like_a_merge_key_goes_between_quotes() -> None:
    assert read('"<<": a\n"": b').value == {"<<": "a", "": "b"}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: b: c", (1, 5), "mapping values are not allowed"),
        ("a:\n\tb: c", (2, 1), "cannot start any token"),
        ("a: [b", (2, 1), ""),
        ("a: 'b", (1, 6), ""),
        ("a: *x", (1, 4), "undefined alias"),
        ("a: 1\n---\nb: 2", (2, 1), "a second document begins here"),
        ("a: \x07", (1, 4), "U+0007"),
        ("a: é\nb: \x00", (2, 4), "U+0000"),
        ("a: \ud800", (0, 0), "surrogate"),
    ],
)
def test_a_text_that_is_no_yaml_is_told_with_its_place(
    text: str, place: tuple[int, int], message: str
) -> None:
    syntax = refused(text)
    assert ((syntax.line, syntax.column), message in syntax.message) == (place, True)


def test_bytes_are_utf8_with_or_without_a_mark() -> None:
    assert decode("\ufeffa: é".encode()) == "a: é"
    assert decode("a: é".encode()) == "a: é"
    wrong = decode(b"a: b\nc: \xff")
    assert isinstance(wrong, Syntax)
    assert (wrong.line, wrong.column) == (2, 4)
    assert isinstance(decode("a: b".encode("utf-16")), Syntax)


def test_a_file_that_is_too_large_is_refused() -> None:
    too_large = decode(b"#" * (32 * 2**20 + 1))
    assert isinstance(too_large, Syntax)
    assert "32 MiB" in too_large.message


def test_places_count_characters_and_look_into_scalars() -> None:
    source = read("ключ:\n  - é: 'ab cd'\n    k: ab\n")
    path = ("ключ", 0, "é")
    assert source.place(path) == (2, 8)
    assert source.place(path, is_about_key=True) == (2, 5)
    assert source.place(path, offset=3) == (2, 12)
    assert source.place(("ключ", 0, "k"), offset=1) == (3, 9)
    assert source.place(("ключ", 0, "nothing")) == (2, 5)

"""Answers are taken apart the same way however their text is cut into tokens."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the serve extra is not installed")

from krafla.runtime.engine import open_tokenizer
from krafla.runtime.server.answer import Said, Splitter, StopFilter, Vocabulary, held_back
from krafla.runtime.server.calls import HERMES, LLAMA, MISTRAL, QWEN_XML, CallFormat, Tool
from krafla.tools import mlt

TOOLS = (
    Tool("get", {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}),
    Tool("stop", {"type": "object"}),
)
ARGUMENTS = ' {"city": "Z\\"}{ü", "days": [1, {"a": "]"}]}'
CASES: list[tuple[str, CallFormat | None, str, str, str, list[tuple[str, object]]]] = [
    ("no", None, "a <think>b", "", "a <think>b", []),
    ("may", None, "\n<think>\nwhy\n\n</think>\n\nso", "why", "so", []),
    ("may", None, "no thoughts </think>", "", "no thoughts </think>", []),
    ("may", None, "<thin", "", "<thin", []),
    ("open", None, "why </think> so", "why", "so", []),
    ("open", None, "cut off", "cut off", "", []),
    ("no", HERMES, "a < b <tool", "", "a < b <tool", []),
    (
        "may",
        HERMES,
        f'<think>w</think>I look.<tool_call>\n{{"name": "get", "arguments":{ARGUMENTS}}}\n</tool_call>\n'
        '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>',
        "w",
        "I look.",
        [("get", json.loads(ARGUMENTS)), ("stop", {})],
    ),
    ("no", LLAMA, f'{{"name": "get", "parameters":{ARGUMENTS}}}', "", "", [("get", json.loads(ARGUMENTS))]),
    ("no", LLAMA, 'as {"name": "stop"', "", 'as {"name": "stop"', []),
    (
        "no",
        MISTRAL,
        '[TOOL_CALLS][{"name": "stop", "arguments": {}}, {"name": "get", "arguments": {"city": "x"}}]',
        "",
        "",
        [("stop", {}), ("get", {"city": "x"})],
    ),
    (
        "no",
        QWEN_XML,
        "<tool_call>\n<function=get>\n<parameter=city>\n1\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
        "</function>\n</tool_call>",
        "",
        "",
        [("get", {"city": "1", "days": 2})],
    ),
]


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(p % (len(text) + 1) for p in places), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


def total(pieces: list[Said]) -> tuple[str, str, list[tuple[str, object]]]:
    calls: list[list[str]] = []
    first = [part for said in pieces for part in said.calls if part.arguments]
    assert not first or first[0].arguments.startswith("{")
    for part in (part for said in pieces for part in said.calls):
        if part.name is not None:
            assert part.index == len(calls)
            calls.append([part.name, ""])
        calls[part.index][1] += part.arguments
    thoughts = "".join(said.reasoning for said in pieces)
    content = "".join(said.content for said in pieces)
    return thoughts, content, [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[2][:20])
@given(places=st.lists(st.integers(0, 400), max_size=60))
def test_answers_come_apart_at_any_cut(
    case: tuple[str, CallFormat | None, str, str, str, list[tuple[str, object]]], places: list[int]
) -> None:
    thinking, form, text, thoughts, content, calls = case
    splitter = Splitter(thinking, form, TOOLS)  # type: ignore[arg-type]
    pieces = [splitter.push(piece) for piece in cut(text, places)]
    assert total([*pieces, splitter.finish()]) == (thoughts, content, calls)


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_stop_strings_cut_at_the_first_place(text: str, stops: list[str], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, 30), max_size=30))
    stopper = StopFilter(stops)
    shown = ""
    for piece in cut(text, places):
        shown += stopper.push(piece)
        if stopper.hit is not None:
            break
    shown += stopper.finish()
    ends = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if stopper.hit is None:
        assert not ends
        assert shown == text
    else:
        assert text.startswith(shown + stopper.hit)
        assert ends
        assert not any(stop in shown for stop in stops)


def test_nothing_is_shown_that_may_begin_a_stop_string() -> None:
    stopper = StopFilter(["END", "DONE"])
    assert [stopper.push(piece) for piece in ("a E", "N", "x D", "ON")] == ["a ", "", "ENx ", ""]
    assert stopper.push("E, b") == ""
    assert stopper.hit == "DONE"
    assert stopper.push("more") == stopper.finish() == ""
    assert held_back("abc", []) == 0


def test_added_tokens_that_are_text(tmp_path: Path) -> None:
    """Gemma has line ends and tags of HTML among its added tokens."""
    added = ("<bos>", "\n\n", "\t\t", "<table>", "</b>", "<s>", "<|end|>", "<think>")
    tokens = [mlt.Token(bytes([byte])) for byte in range(256)]
    tokens += [mlt.Token(text.encode(), mlt.ADDED) for text in added]
    mlt.write(
        tmp_path / "a.mlt", mlt.Mlt(mlt.BYTE_LEVEL, tokens, np.empty((0, 3), np.uint32), eos_ids=(262,))
    )
    tokenizer = open_tokenizer(tmp_path / "a.mlt")
    vocabulary = Vocabulary(tokenizer, 270)
    shown = [vocabulary.shown(97, token).decode() for token in range(256, 266)]
    assert shown == ["", "\n\n", "\t\t", "<table>", "</b>", "", "", "<think>", "", ""]
    assert [tokenizer.is_silent(token) for token in (97, 256, 257, 259, 261)] == [
        False,
        True,
        False,
        False,
        True,
    ]
    tokenizer.close()

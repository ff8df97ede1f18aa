"""Streams of token bytes: no character is ever split, nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from krafla.runtime.text import TextStream


@given(st.text(), st.lists(st.integers(1, 5), min_size=1))
def test_pieces_join_to_the_text(text: str, cuts: list[int]) -> None:
    data, stream, pieces = text.encode(), TextStream(), []
    at = 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        pieces.append(stream.push(data[at : at + size]))
        at += size
    assert stream.finish() == ""
    assert "".join(pieces) == text


@given(st.lists(st.binary()))
def test_broken_bytes_become_replacement_characters(parts: list[bytes]) -> None:
    stream = TextStream()
    text = "".join(map(stream.push, parts)) + stream.finish()
    assert text == b"".join(parts).decode("utf-8", "replace")


def test_an_unfinished_character_waits_and_is_marked_at_the_end() -> None:
    stream = TextStream()
    assert [stream.push(b"\xf0\x9f"), stream.push(b"\x99\x82"), stream.push(b"\xe2\x82")] == ["", "🙂", ""]
    assert stream.finish() == "\ufffd"
    assert stream.push(b"a") == "a"

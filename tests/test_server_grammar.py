"""Grammars: what they let through, token by token, and what they refuse to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llguidance", reason="the serve extra is not installed")

from krafla.runtime.server.calls import HERMES, LLAMA, MISTRAL, QWEN_XML, CallFormat, Tool
from krafla.runtime.server.errors import ApiError
from krafla.runtime.server.grammar import KEPT, Constraint, Grammars, Shape

END, CALLING, VOCAB = 256, 258, 259
#: The bytes, an end token, one that never comes, and a longer one.
TOKENS = [bytes([byte]) for byte in range(256)] + [b"<end>", b"<special>", b"<tool_call>"]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (Tool("get", CITY), Tool("now", {"type": "object", "properties": {}, "additionalProperties": False}))
CALL = '<tool_call>\n{"name": "get", "arguments": {"city": "x"}}\n</tool_call>'


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(TOKENS, [END, END + 1], [END], encode)


def encode(text: str) -> list[int]:
    head, found, rest = text.partition("<tool_call>")
    return [*head.encode(), *([CALLING, *encode(rest)] if found else [])]


def passes(grammars: Grammars, shape: Shape, text: str) -> bool:
    """Whether the grammar lets a whole text through and then lets it end."""
    grammar = shape.grammar()
    assert grammar is not None
    constraint = Constraint(grammars.compile(grammar, "tools"), VOCAB)
    for token in encode(text):
        if constraint.finished or not allowed(constraint, token):
            return False
        constraint.accept(token)
    return constraint.finished or allowed(constraint, END)


def allowed(constraint: Constraint, token: int) -> bool:
    words = constraint.mask()
    assert words.dtype == np.uint32
    assert len(words) == (VOCAB + 31) // 32
    return bool(words[token // 32] >> np.uint32(token % 32) & np.uint32(1))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "object"}, ['{"a": [1, {"b": null}]}', "{\n}"], ["[]", "{", '{"a": }', "{} x"]),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
            ['{"a": 3}', '{"a": 44, "b": 1}'],
            ['{"a": 2}', "{}", '{"a": "3"}'],
        ),
        ({"enum": ["yes", "no"]}, ['"yes"'], ['"maybe"', "yes"]),
        ({"type": "string", "pattern": "^[a-c]+$"}, ['"abc"'], ['"abd"', '""']),
        (
            {"$defs": {"n": {"type": "null"}}, "type": "array", "items": {"$ref": "#/$defs/n"}},
            ["[null]"],
            ["[1]"],
        ),
    ],
)
def test_schemas(grammars: Grammars, schema: dict[str, Any], good: list[str], bad: list[str]) -> None:
    for thinking, before in (
        ("no", ""),
        ("may", ""),
        ("may", "<think>{</think>\n"),
        ("open", "{}</think>\n\n"),
    ):
        shape = Shape(thinking, schema)  # type: ignore[arg-type]
        assert all(passes(grammars, shape, before + text) for text in good)
        assert not any(passes(grammars, shape, before + text) for text in bad)


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"not": {}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "contains": {}}, "contains"),
        ({"type": "thing"}, "thing"),
        ({"type": "string", "format": "colour"}, "colour"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"oneOf": [{"type": "string"}, {"maxLength": 3}]}, "oneOf"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength"),
        # What the library would take as leave to drop keywords.
        ({"not": {}, "x-guidance": {"lenient": True}}, "not"),
    ],
)
def test_schemas_that_cannot_be_enforced_are_refused(
    grammars: Grammars, schema: dict[str, Any], word: str
) -> None:
    grammar = Shape(schema=schema).grammar()
    assert grammar is not None
    with pytest.raises(ApiError, match=word) as error:
        grammars.compile(grammar, "response_format")
    assert error.value.param == "response_format"
    assert error.value.code == "unsupported_schema"


@pytest.mark.parametrize(
    ("form", "call"),
    [
        (HERMES, CALL),
        (LLAMA, '{"name": "get", "parameters": {"city": "x"}}'),
        (MISTRAL, '[TOOL_CALLS][{"name": "get", "arguments": {"city": "x"}}]'),
        (
            QWEN_XML,
            "<tool_call>\n<function=get>\n<parameter=city>\na\nb\n</parameter>\n</function>\n</tool_call>",
        ),
    ],
)
def test_calls(grammars: Grammars, form: CallFormat, call: str) -> None:
    free = Shape(tools=TOOLS, calls=form)
    assert passes(grammars, free, "Only text.")
    assert passes(grammars, free, call)
    assert passes(grammars, free, call.replace("get", "now").replace('{"city": "x"}', "{}")) == (
        form is not QWEN_XML
    )
    assert not passes(grammars, free, call.replace("get", "got"))
    assert not passes(grammars, free, call.replace("city", "town"))
    assert not passes(grammars, free, call[:-3])
    must = Shape(tools=TOOLS, calls=form, must_call=True)
    assert passes(grammars, must, call)
    assert not passes(grammars, must, "Only text.")
    assert not passes(grammars, must, "")
    for thinking, before in (("may", "<think>{ <b> }</think>\n\n"), ("open", "so</think>")):
        for shape in (Shape(thinking, None, TOOLS, form), Shape(thinking, None, TOOLS, form, True)):  # type: ignore[arg-type]
            assert passes(grammars, shape, before + call)


def test_calls_and_text(grammars: Grammars) -> None:
    free = Shape(tools=TOOLS, calls=HERMES)
    assert passes(grammars, free, f"I look: {CALL}\n{CALL} done <tool_")
    assert not passes(grammars, free, "I <tool_call> nothing")
    single = Shape(tools=TOOLS, calls=HERMES, parallel=False)
    assert passes(grammars, single, f"I look: {CALL}")
    assert not passes(grammars, single, f"{CALL}\n{CALL}")
    both = Shape(schema={"type": "integer"}, tools=TOOLS, calls=HERMES)
    assert passes(grammars, both, "12")
    assert passes(grammars, both, CALL)
    assert not passes(grammars, both, "text")
    with pytest.raises(ApiError, match="response_format"):
        Shape(schema={}, tools=TOOLS, calls=LLAMA).grammar()
    listed = '[TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "now", "arguments": {}}]'
    assert passes(grammars, Shape(tools=TOOLS, calls=MISTRAL), listed)
    assert not passes(grammars, Shape(tools=TOOLS, calls=MISTRAL, parallel=False), listed)


def test_values_of_xml_calls(grammars: Grammars) -> None:
    properties = {
        "n": {"type": "integer"},
        "s": {"type": "string", "enum": ["a", "b"]},
        "o": {"type": "object"},
    }
    tool = Tool("f", {"type": "object", "properties": properties, "required": ["n"]})
    shape = Shape(tools=(tool,), calls=QWEN_XML, must_call=True)

    def call(**values: str) -> str:
        body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
        return f"<tool_call>\n<function=f>\n{body}</function>\n</tool_call>"

    assert passes(grammars, shape, call(n="1", s="a", o='{"x": 1}'))
    assert passes(grammars, shape, call(n="1"))
    assert not passes(grammars, shape, call(s="a"))
    assert not passes(grammars, shape, call(n="x"))
    assert not passes(grammars, shape, call(n="1", s="c"))
    for schema, word in (
        ({"properties": {"a": {"type": "string", "pattern": "x"}}}, "pattern"),
        ({"oneOf": []}, "oneOf"),
    ):
        with pytest.raises(ApiError, match=rf"tools\[0\]\.function\.parameters.*{word}"):
            Shape(tools=(Tool("f", {"type": "object", **schema}),), calls=QWEN_XML).grammar()


def test_special_tokens_never_come_and_longer_ones_do(grammars: Grammars) -> None:
    grammar = Shape(tools=TOOLS, calls=HERMES).grammar()
    assert grammar is not None
    constraint = Constraint(grammars.compile(grammar, "tools"), VOCAB)
    assert [allowed(constraint, token) for token in (END, END + 1, CALLING, ord("a"))] == [
        True,
        False,
        True,
        True,
    ]
    constraint.accept(CALLING)
    assert [allowed(constraint, token) for token in (END, ord("a"), ord("\n"))] == [False, False, True]


def test_compiled_grammars_are_kept(grammars: Grammars) -> None:
    for i in range(KEPT + 5):
        grammar = Shape(schema={"const": i}).grammar()
        assert grammar is not None
        first, second = grammars.compile(grammar, "x"), grammars.compile(grammar, "x")
        assert first is not second
        assert first.consume_token(ord(str(i)[0]))
        assert second.consume_token(ord(str(i)[0]))
    assert len(grammars._kept) == KEPT

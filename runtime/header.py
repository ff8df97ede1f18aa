"""Reads the C declarations of krafla.h: a small, strict parser for the way that header is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

HEADERS = ("core/ml.h", "core/isa_check.h", "krafla.h")

_NOISE = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.DOTALL | re.MULTILINE)
_OPAQUE = re.compile(r"\btypedef struct (\w+) \1;")
_STRUCT = re.compile(r"\btypedef struct (\w+) \{([^{}]*)\} \1;")
_ENUM = re.compile(r"\b(?:typedef )?enum(?: \w+)? \{([^{}]*)\}(?: (\w+))?;")
_CALLBACK = re.compile(r"\btypedef ([\w ]+?) ?\(\*(\w+)\)\(([^()]*)\);")
_FUNCTION = re.compile(r"\bML_API ([\w ]+?[ *]+)(\w+)\(([^()]*)\);")
_DECLARATION = re.compile(r"^(?:const )?(\w+)([ *]+)(\w+)(?:\[(\w+)\])?$")


class HeaderError(Exception):
    """The header holds a declaration that this parser does not know."""


@dataclass(frozen=True)
class CType:
    """A C type: its base name without const, how many pointers, and the length if it is an array."""

    base: str
    pointers: int = 0
    length: int | None = None


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function or a field of a struct."""

    name: str
    type: CType


@dataclass(frozen=True)
class Function:
    """A prototype, or the type of a callback."""

    name: str
    result: CType
    parameters: tuple[Parameter, ...]


@dataclass
class Header:
    """Everything that the headers declare."""

    functions: dict[str, Function] = field(default_factory=dict)
    callbacks: dict[str, Function] = field(default_factory=dict)
    structs: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    enums: set[str] = field(default_factory=set)
    constants: dict[str, int] = field(default_factory=dict)


def parse(text: str, header: Header | None = None) -> Header:
    """Parse one header's text, adding to `header` what it declares."""
    header = Header() if header is None else header
    text = _NOISE.sub(" ", text)
    text = re.sub(r"\s+", " ", text)
    for match in _ENUM.finditer(text):
        _add_enum(header, match[1], match[2])
    header.opaque.update(match[1] for match in _OPAQUE.finditer(text))
    for match in _CALLBACK.finditer(text):
        header.callbacks[match[2]] = _function(header, match[2], match[1], match[3])
    for match in _STRUCT.finditer(text):
        fields = (part.strip() for part in match[2].split(";"))
        header.structs[match[1]] = tuple(_parameter(header, part) for part in fields if part)
    for match in _FUNCTION.finditer(text):
        header.functions[match[2]] = _function(header, match[2], match[1], match[3])
    rest = text
    for pattern in (_ENUM, _OPAQUE, _CALLBACK, _STRUCT, _FUNCTION):
        rest = pattern.sub(" ", rest)
    if left := re.search(r"\b(?:typedef|ML_API)\b.{0,60}", rest):
        raise HeaderError(f"cannot read the declaration at: {left[0]}")
    return header


def read(csrc: Path) -> Header:
    """Parse the public headers below `csrc`, in the order in which they include each other."""
    header = Header()
    for name in HEADERS:
        parse((csrc / name).read_text(encoding="utf-8"), header)
    return header


def _add_enum(header: Header, body: str, name: str | None) -> None:
    value = -1
    for item in filter(None, (part.strip() for part in body.split(","))):
        constant, equals, number = (part.strip() for part in item.partition("="))
        value = int(number, 0) if equals else value + 1
        header.constants[constant] = value
    if name:
        header.enums.add(name)


def _function(header: Header, name: str, result: str, parameters: str) -> Function:
    parts = [] if parameters.strip() in ("", "void") else parameters.split(",")
    declared = _parameter(header, f"{result.strip()} result")
    return Function(name, declared.type, tuple(_parameter(header, part.strip()) for part in parts))


def _parameter(header: Header, text: str) -> Parameter:
    match = _DECLARATION.match(text)
    if not match:
        raise HeaderError(f"cannot read the declaration: {text}")
    length = match[4]
    if length is not None:
        length = header.constants[length] if length in header.constants else int(length)
    return Parameter(match[3], CType(match[1], match[2].count("*"), length))

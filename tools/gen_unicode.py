"""Writes unicode_tables.h: what the tokenizers library takes for letters, numbers, spaces and NFC.

The library mixes three Unicode versions: its regular expressions follow Unicode 16, the Digits pre-tokenizer
(Rust's char::is_numeric) Unicode 17, and its NFC is that of Unicode 9. So the tables are not made from one
version of the Unicode data but by asking the library about every code point. Only the values of combining
classes come from Python's unicodedata: they never change once a character has one.

    python -m krafla.tools.gen_unicode            writes the header
    python -m krafla.tools.gen_unicode --check    exits with 1 if the header is stale
"""

import argparse
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import normalizers, pre_tokenizers

TARGET = Path(__file__).resolve().parent.parent / "runtime" / "csrc" / "model" / "unicode_tables.h"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)
PIECE = 4096


@dataclass(frozen=True)
class Tables:
    """Everything the header holds, as sorted lists."""

    letters: list[int]
    marks: list[int]
    numbers: list[int]
    spaces: list[int]
    digits: list[int]
    """What the Digits pre-tokenizer splits off."""
    classes: dict[int, int]
    """Canonical combining classes other than 0."""
    decompositions: dict[int, list[int]]
    """Full canonical decompositions, Hangul syllables aside."""
    compositions: dict[tuple[int, int], int]


def matching(pattern: str) -> list[int]:
    """Code points that the library's regular expressions match with `pattern`."""
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="removed")
    left: set[int] = set()
    for start in range(0, len(CODE_POINTS), PIECE):
        text = "".join(map(chr, CODE_POINTS[start : start + PIECE]))
        left.update(ord(c) for piece, _ in split.pre_tokenize_str(text) for c in piece)
    return [c for c in CODE_POINTS if c not in left]


def split_digits() -> list[int]:
    """Code points that Digits(individual_digits=True) makes pieces of their own."""
    split = pre_tokenizers.Digits(individual_digits=True)
    found: set[int] = set()
    for start in range(0, len(CODE_POINTS), PIECE):
        text = "x".join(map(chr, CODE_POINTS[start : start + PIECE]))
        found.update(ord(piece) for piece, _ in split.pre_tokenize_str(f"x{text}x") if len(piece) == 1)
    return sorted(found - {ord("x")})


def combining_classes(nfd: Callable[[str], str]) -> dict[int, int]:
    """Classes of the characters that the library reorders."""
    low, high = chr(0x334), chr(0x345)  # classes 1 and 240, the two ends
    classes: dict[int, int] = {}
    for code in CODE_POINTS:
        char, value = chr(code), unicodedata.combining(chr(code))
        moves = nfd(f"a{char}{low}") == f"a{low}{char}" or nfd(f"a{high}{char}") == f"a{char}{high}"
        if moves and not value:
            version = unicodedata.unidata_version
            raise SystemExit(f"this Python's Unicode {version} has no class for U+{code:04X}")
        if moves:
            classes[code] = value
    return classes


def canonical(
    nfd: Callable[[str], str], nfc: Callable[[str], str]
) -> tuple[dict[int, list[int]], dict[tuple[int, int], int]]:
    """Full decompositions, and the pairs that compose: a decomposition without its last character, and it."""
    decompositions: dict[int, list[int]] = {}
    compositions: dict[tuple[int, int], int] = {}
    for code in CODE_POINTS:
        full = nfd(chr(code))
        if full == chr(code) or code in HANGUL:
            continue
        decompositions[code] = [ord(c) for c in full]
        if nfc(full) == chr(code):
            first = nfc(full[:-1])
            if len(first) != 1:
                raise SystemExit(f"U+{code:04X} is not composed from a pair")
            compositions[ord(first), ord(full[-1])] = code
    return decompositions, compositions


def ask_library() -> Tables:
    """All tables, from the installed tokenizers library."""
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    decompositions, compositions = canonical(nfd, nfc)
    return Tables(
        letters=matching(r"\p{L}"),
        marks=matching(r"\p{M}"),
        numbers=matching(r"\p{N}"),
        spaces=matching(r"\s"),
        digits=split_digits(),
        classes=combining_classes(nfd),
        decompositions=decompositions,
        compositions=dict(sorted(compositions.items())),
    )


def ranges(codes: Iterable[int], key: Callable[[int], int] = lambda code: 0) -> list[tuple[int, int, int]]:
    """Runs of neighbours with one key, as (first, last, key)."""
    runs: list[tuple[int, int, int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1 and runs[-1][2] == key(code):
            runs[-1] = (runs[-1][0], code, runs[-1][2])
        else:
            runs.append((code, code, key(code)))
    return runs


def array(declaration: str, note: str, entries: Sequence[str]) -> str:
    """A C array with as many entries to a line as fit."""
    lines = [""]
    for entry in entries:
        if len(lines[-1]) + len(entry) > 102:
            lines.append("")
        lines[-1] += f" {entry},"
    body = "\n".join(f"   {line}" for line in lines)
    return f"/* {note} */\nstatic const {declaration}[{len(entries)}] = {{\n{body}\n}};\n"


def pairs(codes: Iterable[int]) -> list[str]:
    """Ranges as C initializers."""
    return [f"{{{first:#x}, {last:#x}}}" for first, last, _ in ranges(codes)]


def render(tables: Tables) -> str:
    """The header's text."""
    pool: list[int] = []
    decompositions: list[str] = []
    for code, full in tables.decompositions.items():
        decompositions.append(f"{{{code:#x}, {len(pool)}, {len(full)}}}")
        pool += full
    classes = ranges(tables.classes, tables.classes.__getitem__)
    parts = [
        "/* Written by tools/gen_unicode.py from the behaviour of the tokenizers library; do not edit. */\n"
        "/* clang-format off */\n#ifndef ML_UNICODE_TABLES_H\n#define ML_UNICODE_TABLES_H\n\n"
        "#include <stdint.h>\n\n"
        "typedef struct ml_range {\n    uint32_t first, last;\n} ml_range;\n"
        "typedef struct ml_class_range {\n    uint32_t first, last, value;\n} ml_class_range;\n"
        "typedef struct ml_decomposition {\n    uint32_t code;\n    uint16_t start, length;\n"
        "} ml_decomposition;\n"
        "typedef struct ml_composition {\n    uint32_t first, second, composed;\n} ml_composition;\n",
        array("ml_range ml_letters", r"\p{L}", pairs(tables.letters)),
        array("ml_range ml_marks", r"\p{M}", pairs(tables.marks)),
        array("ml_range ml_numbers", r"\p{N}", pairs(tables.numbers)),
        array("ml_range ml_spaces", r"\s", pairs(tables.spaces)),
        array("ml_range ml_digits", "what a Digits pre-tokenizer splits off", pairs(tables.digits)),
        array(
            "ml_class_range ml_classes",
            "canonical combining classes",
            [f"{{{a:#x}, {b:#x}, {c}}}" for a, b, c in classes],
        ),
        array("ml_decomposition ml_decompositions", "code, start in the pool, length", decompositions),
        array(
            "uint32_t ml_decomposition_pool", "full canonical decompositions", [f"{code:#x}" for code in pool]
        ),
        array(
            "ml_composition ml_compositions",
            "sorted by the first, then by the second character",
            [f"{{{a:#x}, {b:#x}, {c:#x}}}" for (a, b), c in tables.compositions.items()],
        ),
        "#endif\n",
    ]
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks the header; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="gen_unicode", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say whether the header is current")
    options = parser.parse_args(arguments)
    text = render(ask_library())
    if not options.check:
        TARGET.write_text(text, encoding="ascii", newline="\n")
        return 0
    if TARGET.is_file() and TARGET.read_text(encoding="ascii") == text:
        return 0
    version = tokenizers.__version__
    print(f"{TARGET.name} does not match tokenizers {version}: run tools/gen_unicode.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())

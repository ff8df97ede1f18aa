"""Hugging Face's tokenizer.json as an .mlt tokenizer; what the format cannot express is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from krafla.tools.errors import FormatError, access
from krafla.tools.mlt import (
    ADDED,
    BOS,
    BYTE,
    BYTE_LEVEL,
    GPT2,
    IGNORE_MERGES,
    MARKS,
    NFC,
    NO_PREFIX,
    NORMAL,
    ONE_NUMBER,
    PREFIX_ONCE,
    SENTENCEPIECE,
    SPACE,
    SPLIT_DIGITS,
    Merges,
    Mlt,
    Token,
)

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|%s| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
#: Regular expressions that the engine matches, and the flags that choose them.
REGEXES = {
    _LLAMA3 % r"\p{N}{1,3}": 0,
    _LLAMA3 % r"\p{N}": ONE_NUMBER,
    _QWEN35 % r"\p{N}{1,3}": MARKS,
    _QWEN35 % r"\p{N}": ONE_NUMBER | MARKS,
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": GPT2,
}
_PREPEND = {"type": "Prepend", "prepend": SPACE}
_REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
# Finds nothing: the normalizer has replaced all spaces.
_NO_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
_SENTENCEPIECE_DECODER = [
    {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]
_MEMBERS = ("normalizers", "pretokenizers", "processors", "decoders")


def printable_bytes() -> dict[str, int]:
    """The characters that byte-level vocabularies write for bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(0x100 + i): b for i, b in enumerate(others)}


_PRINTABLE = printable_bytes()


def raw_bytes(text: str) -> bytes:
    """What a byte-level piece stands for; text that is not written in that alphabet stands for itself."""
    try:
        return bytes(map(_PRINTABLE.__getitem__, text))
    except KeyError:
        return text.encode()


def byte_value(text: str) -> int | None:
    """The byte of a SentencePiece byte token such as <0x0A>."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return int(text[3:5], 16)
        except ValueError:
            return None
    return None


def rank_merges(pairs: Iterable[tuple[int, int, int]]) -> Merges:
    """Merges as an array; of a repeated pair the last rank counts, as in the tokenizers library."""
    ranked: dict[tuple[int, int], int] = {}
    for left, right, merged in pairs:
        ranked.pop((left, right), None)
        ranked[left, right] = merged
    rows = [(left, right, merged) for (left, right), merged in ranked.items()]
    return np.array(rows, np.uint32).reshape(-1, 3)


def load_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    with access(path, "read"):
        text = path.read_bytes()
    try:
        data = json.loads(text)
    except ValueError as error:
        raise FormatError(f"{path}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise FormatError(f"{path}: must hold a JSON object")
    return data


def from_json(data: dict[str, Any], where: str) -> Mlt:
    """Convert the content of a tokenizer.json; its end-of-text ids stand elsewhere."""
    return _Conversion(data, where).run()


class _Conversion:
    def __init__(self, data: dict[str, Any], where: str) -> None:
        self.data = data
        self.where = where
        self.model: dict[str, Any] = data.get("model") or {}
        self.added: list[dict[str, Any]] = data.get("added_tokens") or []

    def refuse(self, what: str) -> NoReturn:
        raise FormatError(f"{self.where}: {what} cannot be expressed in an .mlt file")

    def parts(self, name: str) -> list[dict[str, Any]]:
        """The members of a possibly nested Sequence, or the one component, or nothing."""

        def flatten(component: dict[str, Any] | None) -> list[dict[str, Any]]:
            if component is None:
                return []
            if component.get("type") != "Sequence":
                return [component]
            members: list[dict[str, Any]] = next((component[k] for k in _MEMBERS if k in component), [])
            return [part for member in members for part in flatten(member)]

        return flatten(self.data.get(name))

    def run(self) -> Mlt:
        self.check_model()
        byte_level = any(part.get("type") == "ByteLevel" for part in self.parts("pre_tokenizer"))
        kind = BYTE_LEVEL if byte_level else SENTENCEPIECE
        flags = self.byte_level_flags() if byte_level else self.sentencepiece_flags()
        if self.model.get("ignore_merges"):
            flags |= IGNORE_MERGES
        self.check_added()
        ids = self.ids()
        tokens = self.tokens(ids, byte_level)
        self.check_unknown(tokens, byte_level)
        bos = self.template_bos()
        if bos >= 0:
            flags |= BOS
        return Mlt(kind, tokens, self.merges(ids), bos, (), flags)

    def check_model(self) -> None:
        if self.model.get("type", "BPE") != "BPE":
            self.refuse(f"model {self.model['type']}")
        for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            if self.model.get(name):
                self.refuse(f"{name} {self.model[name]!r}")
        if not isinstance(self.model.get("vocab"), dict) or not isinstance(self.model.get("merges"), list):
            raise FormatError(f"{self.where}: model needs a vocab object and a merges list")

    def byte_level_flags(self) -> int:
        flags = 0
        for part in self.parts("normalizer"):
            if part["type"] != "NFC":
                self.refuse(f"normalizer {part['type']}")
            flags |= NFC
        *before, last = self.parts("pre_tokenizer")
        if last["type"] != "ByteLevel" or last.get("add_prefix_space"):
            self.refuse(f"pre_tokenizer {_describe(last)} at the end")
        if before and before[0]["type"] == "Digits":
            digits = before.pop(0)
            if not digits.get("individual_digits"):
                self.refuse(f"pre_tokenizer {_describe(digits)}")
            flags |= SPLIT_DIGITS
        flags |= self.regex_flags(before, bool(last.get("use_regex", True)))
        for part in self.parts("decoder"):
            if part["type"] != "ByteLevel":
                self.refuse(f"decoder {part['type']}")
        return flags

    def regex_flags(self, splits: Sequence[dict[str, Any]], byte_level_regex: bool) -> int:
        if not splits and byte_level_regex:
            return GPT2
        regex = splits[0].get("pattern", {}).get("Regex") if len(splits) == 1 else None
        isolated = bool(splits) and splits[0].get("behavior") == "Isolated" and not splits[0].get("invert")
        if regex not in REGEXES or not isolated or byte_level_regex:
            names = ", ".join(_describe(part) for part in splits) or "ByteLevel without a regular expression"
            self.refuse(f"pre_tokenizer {names}")
        return REGEXES[regex]

    def sentencepiece_flags(self) -> int:
        if not self.model.get("byte_fallback"):
            self.refuse("a SentencePiece-style model without byte_fallback")
        normalizers, splits = self.parts("normalizer"), self.parts("pre_tokenizer")
        metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
        if normalizers == [_PREPEND, _REPLACE] and not splits:
            flags = 0
        elif not normalizers and splits == [metaspace]:
            flags = PREFIX_ONCE
        elif normalizers == [_REPLACE] and splits in ([], [_NO_SPLIT]):
            flags = NO_PREFIX
        elif normalizers and normalizers not in ([_PREPEND, _REPLACE], [_REPLACE]):
            self.refuse(f"normalizer {', '.join(map(_describe, normalizers))}")
        else:
            self.refuse(f"pre_tokenizer {', '.join(map(_describe, splits)) or 'null'} with this normalizer")
        # The last step takes the prefix away again.
        expected = _SENTENCEPIECE_DECODER[:3] if flags == NO_PREFIX else _SENTENCEPIECE_DECODER
        if (decoders := self.parts("decoder")) != expected:
            self.refuse(f"decoder {', '.join(map(_describe, decoders)) or 'null'}")
        return flags

    def check_added(self) -> None:
        for token in self.added:
            for name in ("lstrip", "rstrip", "single_word"):
                if token.get(name):
                    self.refuse(f"{name} of added token {token['content']!r}")
            if token.get("normalized") and self.parts("normalizer"):
                self.refuse(f"added token {token['content']!r}, matched after normalization,")
        # The library matches those two classes one after the other; the format knows only one pass.
        late = [token["content"] for token in self.added if token.get("normalized")]
        early = [token["content"] for token in self.added if not token.get("normalized")]
        for a in late:
            if clash := next((b for b in early if _overlap(a, b)), None):
                self.refuse(f"added token {a!r} (normalized), which overlaps {clash!r} (not normalized),")

    def ids(self) -> dict[str, int]:
        """The model's vocabulary by text, without the added tokens that are not in it."""
        vocab: dict[str, int] = self.model["vocab"]
        if bad := next((text for text, i in vocab.items() if not isinstance(i, int) or i < 0), None):
            raise FormatError(f"{self.where}: id of {bad!r} is {vocab[bad]!r}")
        return vocab

    def tokens(self, ids: dict[str, int], byte_level: bool) -> list[Token]:
        """All tokens by id; ids that nothing has become empty tokens."""
        last = max([*ids.values(), *(token["id"] for token in self.added)], default=-1)
        if last < 0 or last >= 1 << 24:
            raise FormatError(f"{self.where}: the highest id is {last}")
        tokens = [Token(b"")] * (last + 1)
        for text, i in ids.items():
            value = None if byte_level else byte_value(text)
            if value is not None:
                tokens[i] = Token(bytes([value]), BYTE)
            else:
                tokens[i] = Token(raw_bytes(text) if byte_level else text.encode("utf-8", "surrogatepass"))
        for token in self.added:
            if content := token["content"]:
                tokens[token["id"]] = Token(content.encode("utf-8", "surrogatepass"), ADDED)
        return tokens

    def check_unknown(self, tokens: Sequence[Token], byte_level: bool) -> None:
        """The library writes unk_token for bytes that have no token; the format has no such id."""
        if not byte_level or self.model.get("unk_token") is None:
            return
        singles = {token.data for token in tokens if token.attr == NORMAL and len(token.data) == 1}
        if len(singles) < 256:
            self.refuse(f"unk_token {self.model['unk_token']!r} for the bytes that have no token")

    def merges(self, ids: dict[str, int]) -> Merges:
        def pair(rule: str | list[str]) -> tuple[str, str]:
            parts = rule.split(" ") if isinstance(rule, str) else rule
            if len(parts) != 2:
                raise FormatError(f"{self.where}: merge {rule!r} is no pair")
            return parts[0], parts[1]

        def number(left: str, right: str) -> tuple[int, int, int]:
            try:
                return ids[left], ids[right], ids[left + right]
            except KeyError as error:
                raise FormatError(f"{self.where}: merge {left!r} {right!r}: no token {error}") from error

        return rank_merges(number(*pair(rule)) for rule in self.model["merges"])

    def template_bos(self) -> int:
        """The id that the post-processor puts before the text, or -1."""
        bos = -1
        for part in self.parts("post_processor"):
            if part["type"] == "ByteLevel":
                continue
            if part["type"] != "TemplateProcessing":
                self.refuse(f"post_processor {part['type']}")
            *before, last = part["single"]
            special = [item.get("SpecialToken", {}).get("id") for item in before]
            known = part.get("special_tokens", {})
            if last.get("Sequence", {}).get("id") != "A" or len(before) > 1 or None in special or bos >= 0:
                self.refuse("a post_processor that adds more than one token before the text")
            if special:
                ids = known.get(special[0], {}).get("ids", [])
                if len(ids) != 1:
                    self.refuse(f"post_processor token {special[0]!r} with ids {ids}")
                bos = int(ids[0])
        return bos


def _describe(part: dict[str, Any]) -> str:
    """A component's type and settings, short enough for a sentence."""
    settings = ", ".join(f"{key}={value!r}" for key, value in part.items() if key != "type")
    text = f"{part.get('type')}({settings})"
    return text if len(text) <= 200 else text[:197] + "..."


def _overlap(a: str, b: str) -> bool:
    """Whether one text can hold both so that they share a character."""
    if a in b or b in a:
        return True
    lengths = range(1, min(len(a), len(b)))
    return any(a.endswith(b[:n]) or b.endswith(a[:n]) for n in lengths)

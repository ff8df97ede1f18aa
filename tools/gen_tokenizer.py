"""Makes small random tokenizers, as .mlt and as the tokenizer.json that means the same; for tests."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click
import numpy as np

from krafla.tools import mlt as mlt_file
from krafla.tools.errors import KraflaError, UsageError, access
from krafla.tools.hf_tokenizer import REGEXES, printable_bytes
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
    Mlt,
    Token,
    allowed,
)

Kind: TypeAlias = Literal["bytes", "sentencepiece"]
KINDS: dict[Kind, int] = {"bytes": BYTE_LEVEL, "sentencepiece": SENTENCEPIECE}
#: Ids 0 to 2, as every model's header expects them.
SPECIAL = ("<unk>", "<s>", "</s>")
#: At the end of larger vocabularies: one is the start of another, one holds spaces, one is not ASCII.
EXTRA = ("<|a|>", "<|a|><|b|>", "<|a", "two words ", "<日本>", "[\n]")
#: Characters that merge with their like: first the space, then three kinds that it may stand before.
ALPHABETS = (
    " ",
    "aeinorstldmv'",
    "ABéüñçЖдя",
    "0123456789",
    "!?.,-()=",
    "日本語한국あア",
    "\n\r\t",
    "🙂👍🏽",
)
_SPACED = (1, 2, 3)


@dataclass(frozen=True)
class Generated:
    """One tokenizer in both forms."""

    mlt: Mlt
    json: dict[str, Any]


def smallest_vocab(kind: Kind) -> int:
    """Special tokens and one token for every byte."""
    return len(SPECIAL) + 256 + (0 if kind == "bytes" else len(SPACE))


def generate(kind: Kind, vocab: int = 512, seed: int = 0, flags: int = 0) -> Generated:
    """A random tokenizer of `vocab` tokens; the same arguments give the same one."""
    if vocab < smallest_vocab(kind):
        raise UsageError(f"vocab is {vocab}, a {kind} tokenizer has at least {smallest_vocab(kind)} tokens")
    if not allowed(KINDS[kind], flags):
        raise UsageError(f"flags are {flags}, which a {kind} tokenizer does not have")
    rng = random.Random(f"{kind} {vocab} {seed} {flags}")
    tokens = [Token(text.encode(), ADDED) for text in SPECIAL]
    tokens += [Token(bytes([byte]), NORMAL if kind == "bytes" else BYTE) for byte in range(256)]
    extra = [Token(text.encode(), ADDED) for text in EXTRA] if vocab >= smallest_vocab(kind) + 64 else []
    room = vocab - len(tokens) - len(extra)
    rules = _grow(rng, kind, tokens, room)
    rules = _more_rules(rng, tokens, rules, flags)
    tokens += extra
    merges = np.array(rules, np.uint32).reshape(-1, 3)
    mlt = Mlt(KINDS[kind], tokens, merges, 1, (2,), flags)
    return Generated(mlt, _to_json(mlt, kind))


def _grow(rng: random.Random, kind: Kind, tokens: list[Token], room: int) -> list[tuple[int, int, int]]:
    """Add `room` tokens: single characters first (SentencePiece), then joined pairs of one alphabet."""
    ids = {token.data: i for i, token in enumerate(tokens) if token.attr == NORMAL}
    rules: list[tuple[int, int, int]] = []

    def add(data: bytes) -> int:
        ids[data] = len(tokens)
        tokens.append(Token(data))
        return ids[data]

    def join(left: bytes, right: bytes) -> bytes:
        if left + right not in ids and len(ids) < limit:
            rules.append((ids[left], ids[right], add(left + right)))
        return left + right

    limit = len(ids) + room
    pools: list[list[bytes]] = []
    for alphabet in ALPHABETS:
        pool = [char.replace(" ", SPACE if kind == "sentencepiece" else " ").encode() for char in alphabet]
        # SentencePiece leaves every third character to the byte tokens, the space never.
        for i, data in enumerate(pool):
            if kind == "sentencepiece" and (i % 3 != 2) and data not in ids and len(ids) < limit:
                add(data)
            if kind == "bytes":
                for cut in range(1, len(data)):
                    join(data[:cut], data[cut : cut + 1])
        pools.append([data for data in pool if data in ids])
    space = pools[0][0]
    while len(ids) < limit:
        which = rng.randrange(len(pools))
        pool = pools[which]
        if not pool:
            continue
        left = space if which in _SPACED and rng.random() < 0.3 else rng.choice(pool)
        right = rng.choice(pool)
        if len(left + right) <= 24 and not (right.startswith(space) and which in _SPACED):
            joined = join(left, right)
            if joined in ids:
                pool.append(joined)
        else:
            pool.append(rng.choice(pool))
    return rules


def _more_rules(
    rng: random.Random, tokens: Sequence[Token], rules: list[tuple[int, int, int]], flags: int
) -> list[tuple[int, int, int]]:
    """Other ways to the same token, at random ranks; with ignore_merges also tokens that no rule makes."""
    ids = {token.data: i for i, token in enumerate(tokens) if token.attr == NORMAL}
    pairs = {(left, right) for left, right, _ in rules}
    for data, merged in ids.items():
        for cut in range(1, len(data)):
            pair = (ids.get(data[:cut], -1), ids.get(data[cut:], -1))
            if min(pair) >= 0 and pair not in pairs and rng.random() < 0.4:
                pairs.add(pair)
                rules.insert(rng.randint(0, len(rules)), (*pair, merged))
    if flags & IGNORE_MERGES:
        rules = [rule for rule in rules if rng.random() < 0.8]
    return rules


def _to_json(mlt: Mlt, kind: Kind) -> dict[str, Any]:
    alphabet = {byte: char for char, byte in printable_bytes().items()}

    def written(token: Token) -> str:
        if token.attr == BYTE:
            return f"<0x{token.data[0]:02X}>"
        if token.attr == ADDED or kind == "sentencepiece":
            return token.data.decode()
        return "".join(alphabet[byte] for byte in token.data)

    texts = [written(token) for token in mlt.tokens]
    added = [i for i, token in enumerate(mlt.tokens) if token.attr == ADDED]
    model = {
        "type": "BPE",
        "unk_token": None if kind == "bytes" else SPECIAL[0],
        "fuse_unk": kind == "sentencepiece",
        "byte_fallback": kind == "sentencepiece",
        "ignore_merges": bool(mlt.flags & IGNORE_MERGES),
        # Those after the first are no part of the model's own vocabulary, as in most real files.
        "vocab": {text: i for i, text in enumerate(texts) if i < len(SPECIAL) or i not in added},
        "merges": [[texts[left], texts[right]] for left, right, _ in mlt.merges.tolist()],
    }
    options = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": texts[i], **options} for i in added],
        **(_byte_level_parts(mlt.flags) if kind == "bytes" else _sentencepiece_parts(mlt.flags)),
        "post_processor": _template(mlt) if mlt.flags & BOS else None,
        "model": model,
    }


def _template(mlt: Mlt) -> dict[str, Any]:
    text, sequence = SPECIAL[mlt.bos], {"Sequence": {"id": "A", "type_id": 0}}
    single = [{"SpecialToken": {"id": text, "type_id": 0}}, sequence]
    special = {text: {"id": text, "ids": [mlt.bos], "tokens": [text]}}
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": special}


def _byte_level_parts(flags: int) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    parts: list[dict[str, Any]] = []
    if flags & SPLIT_DIGITS:
        parts.append({"type": "Digits", "individual_digits": True})
    if flags & GPT2:
        byte_level["use_regex"] = True
    else:
        wanted = flags & (ONE_NUMBER | MARKS)
        regex = next(pattern for pattern, value in REGEXES.items() if value == wanted)
        parts.append({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False})
    return {
        "normalizer": {"type": "NFC"} if flags & NFC else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*parts, byte_level]},
        "decoder": {**byte_level, "use_regex": True},
    }


def _sentencepiece_parts(flags: int) -> dict[str, Any]:
    prepend = {"type": "Prepend", "prepend": SPACE}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
    decoders = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    once = flags & PREFIX_ONCE
    if flags & NO_PREFIX:
        split = {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        }
        return {
            "normalizer": replace,
            "pre_tokenizer": split,
            "decoder": {"type": "Sequence", "decoders": decoders[:3]},
        }
    return {
        "normalizer": None if once else {"type": "Sequence", "normalizers": [prepend, replace]},
        "pre_tokenizer": metaspace if once else None,
        "decoder": {"type": "Sequence", "decoders": decoders},
    }


def write(path: str | PathLike[str], generated: Generated) -> None:
    """Write the .mlt file PATH and its tokenizer.json beside it, as PATH with the suffix .tokenizer.json."""
    mlt_file.write(path, generated.mlt)
    beside = Path(path).with_suffix(".tokenizer.json")
    with access(beside, "write"):
        beside.write_text(json.dumps(generated.json, ensure_ascii=False), encoding="utf-8")


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("destination", type=click.Path(path_type=Path))
@click.option("--vocab", default=512, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--flags", default=0, show_default=True, help="Flags of the .mlt header.")
def main(kind: Kind, destination: Path, vocab: int, seed: int, flags: int) -> None:
    """Write a random tokenizer to DESTINATION (.mlt) and, beside it, its tokenizer.json."""
    try:
        write(destination, generate(kind, vocab, seed, flags))
    except KraflaError as error:
        print(f"gen_tokenizer: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()

"""The vocabulary inside a GGUF file as an .mlt tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from krafla.tools.errors import FormatError
from krafla.tools.gguf_file import read_gguf
from krafla.tools.hf_tokenizer import byte_value, rank_merges, raw_bytes
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
    ONE_NUMBER,
    SENTENCEPIECE,
    SPLIT_DIGITS,
    Merges,
    Mlt,
    Token,
)

#: Flags of the byte-level vocabularies by tokenizer.ggml.pre, as the models' own tokenizers have them.
PRE_FLAGS = {
    "gpt-2": GPT2,
    "phi-2": GPT2,
    "smollm": GPT2 | SPLIT_DIGITS,
    "starcoder": GPT2 | SPLIT_DIGITS,
    "refact": GPT2 | SPLIT_DIGITS,
    "llama-bpe": IGNORE_MERGES,
    "llama3": IGNORE_MERGES,
    "llama-v3": IGNORE_MERGES,
    "qwen2": NFC | ONE_NUMBER,
    "qwen35": NFC | ONE_NUMBER | MARKS,
}
_BOS_BY_DEFAULT = ("llama-bpe", "llama3", "llama-v3")
#: Control tokens that end a text or a turn under whatever id: GGUF files do not keep generation_config.json.
END_TOKENS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
)
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6


def open_gguf(path: Path) -> dict[str, Any]:
    """The tokenizer.* values of a GGUF file, without that prefix."""
    values = read_gguf(path).values
    return {name.removeprefix("tokenizer."): v for name, v in values.items() if name.startswith("tokenizer.")}


def from_gguf(values: dict[str, Any], where: str) -> Mlt:
    """Convert the vocabulary; end-of-text ids come from the metadata and from the names of control tokens."""
    model = values.get("ggml.model")
    texts = values.get("ggml.tokens")
    if not isinstance(model, str) or not isinstance(texts, list):
        raise FormatError(f"{where}: there is no vocabulary (tokenizer.ggml.model and .tokens)")
    types = values.get("ggml.token_type") or [_NORMAL] * len(texts)
    if len(types) != len(texts):
        raise FormatError(f"{where}: tokenizer.ggml.token_type has {len(types)} entries, not {len(texts)}")
    if values.get("ggml.add_eos_token"):
        raise FormatError(f"{where}: tokenizer.ggml.add_eos_token cannot be expressed in an .mlt file")
    if model == "gpt2":
        mlt = _byte_level(values, texts, types, where)
    elif model == "llama":
        mlt = _sentencepiece(values, texts, types, where)
    else:
        raise FormatError(f"{where}: tokenizer.ggml.model {model!r} cannot be expressed in an .mlt file")
    mlt.bos = int(values.get("ggml.bos_token_id", -1))
    if values.get("ggml.add_bos_token", model == "llama" or values.get("ggml.pre") in _BOS_BY_DEFAULT):
        mlt.flags |= BOS
    mlt.eos_ids = tuple(dict.fromkeys(_end_ids(values, texts, types)))
    return mlt


def _end_ids(values: dict[str, Any], texts: Sequence[str], types: Sequence[int]) -> Iterator[int]:
    for name in ("eos", "eot", "eom"):
        if (i := values.get(f"ggml.{name}_token_id")) is not None:
            yield int(i)
    yield from (i for i, text in enumerate(texts) if types[i] == _CONTROL and text in END_TOKENS)


def _is_added(token_type: int) -> bool:
    return token_type in (_UNKNOWN, _CONTROL, _USER_DEFINED)


def _byte_level(values: dict[str, Any], texts: Sequence[str], types: Sequence[int], where: str) -> Mlt:
    pre = values.get("ggml.pre")
    if pre not in PRE_FLAGS:
        known = ", ".join(PRE_FLAGS)
        raise FormatError(f"{where}: tokenizer.ggml.pre {pre!r} is not one of those supported: {known}")
    tokens = [
        Token(text.encode(), ADDED) if _is_added(kind) else Token(raw_bytes(text))
        for text, kind in zip(texts, types, strict=True)
    ]
    ids = {text: i for i, text in reversed(list(enumerate(texts)))}

    def pairs() -> Iterator[tuple[int, int, int]]:
        for rule in values.get("ggml.merges") or []:
            left, _, right = rule.partition(" ")
            if any(part not in ids for part in (left, right, left + right)):
                raise FormatError(f"{where}: merge {rule!r} names a token that is not in the vocabulary")
            yield ids[left], ids[right], ids[left + right]

    return Mlt(BYTE_LEVEL, tokens, rank_merges(pairs()), flags=PRE_FLAGS[pre])


def _sentencepiece(values: dict[str, Any], texts: Sequence[str], types: Sequence[int], where: str) -> Mlt:
    flags = 0 if values.get("ggml.add_space_prefix", True) else NO_PREFIX
    if values.get("ggml.remove_extra_whitespaces"):
        raise FormatError(f"{where}: tokenizer.ggml.remove_extra_whitespaces cannot be expressed")
    scores = values.get("ggml.scores") or []
    if len(scores) != len(texts):
        raise FormatError(f"{where}: tokenizer.ggml.scores has {len(scores)} entries, not {len(texts)}")
    tokens: list[Token] = []
    for i, (text, kind) in enumerate(zip(texts, types, strict=True)):
        value = byte_value(text) if kind == _BYTE else None
        if kind == _BYTE and value is None:
            raise FormatError(f"{where}: byte token {i} is {text!r}")
        if value is not None:
            tokens.append(Token(bytes([value]), BYTE))
        else:
            tokens.append(Token(text.encode(), ADDED if _is_added(kind) else 0))
    normal = {text: i for i, text in enumerate(texts) if types[i] == _NORMAL}
    return Mlt(SENTENCEPIECE, tokens, merges_of_scores(normal, scores), flags=flags)


def merges_of_scores(ids: dict[str, int], scores: Sequence[float]) -> Merges:
    """Every pair that joins to a token, the best score first: what SentencePiece merges, as ranked rules.

    Several pairs of one token are in the order of their ids, as in the tokenizer.json files of the Llama family.
    """
    found: list[tuple[float, tuple[int, int, int]]] = []
    for text, merged in ids.items():
        cuts = [(text[:n], text[n:]) for n in range(1, len(text))]
        pairs = sorted((ids[a], ids[b]) for a, b in cuts if a in ids and b in ids)
        found += [(-float(scores[merged]), (*pair, merged)) for pair in pairs]
    found.sort(key=lambda entry: entry[0])
    return rank_merges(rule for _, rule in found)

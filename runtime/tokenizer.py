"""Text to token ids and back, through the engine's tokenizers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path

from krafla.runtime.bind import Api


class Tokenizer:
    """An open tokenizer file: .mlt, or llama2.c's tokenizer.bin."""

    def __init__(self, api: Api, path: Path, vocab: int) -> None:
        self._api = api
        self._handle = ctypes.c_void_p()
        api.fn.ml_tokenizer_open(ctypes.byref(self._handle), str(path).encode(), vocab)
        self.vocab: int = api.fn.ml_tokenizer_vocab(self._handle)
        self.bos: int = api.fn.ml_tokenizer_bos(self._handle)
        count = api.fn.ml_tokenizer_eos(self._handle, None, 0)
        ids = (ctypes.c_int32 * max(count, 1))()
        api.fn.ml_tokenizer_eos(self._handle, ids, count)
        self.eos: frozenset[int] = frozenset(ids[:count])
        self.first_eos: int = ids[0] if count else -1

    def close(self) -> None:
        """Release the tokenizer; closing twice is fine."""
        if self._handle:
            self._api.fn.ml_tokenizer_close(self._handle)
            self._handle = ctypes.c_void_p()

    def encode(self, text: str, bos: bool | None = None, added: bool = True) -> list[int]:
        """Token ids; `bos` None does what the file says, `added` False takes <s> and the like as text."""
        const = self._api.const
        flags = {None: 0, True: const.ML_ENCODE_BOS, False: const.ML_ENCODE_NO_BOS}[bos]
        flags |= 0 if added else const.ML_ENCODE_NO_ADDED
        data = text.encode("utf-8", "surrogatepass")  # lone surrogates become U+FFFD in the engine
        count = ctypes.c_size_t()
        capacity = len(data) + 16
        while True:
            ids = (ctypes.c_int32 * capacity)()
            arguments = (self._handle, data, len(data), flags, ids, capacity, ctypes.byref(count))
            self._api.fn.ml_tokenizer_encode(*arguments)
            if count.value <= capacity:
                return ids[: count.value]
            capacity = count.value

    def piece(self, previous: int, token: int) -> bytes:
        """The bytes of one token after `previous` (-1 at the start); they may end inside a character."""
        data, length = ctypes.c_void_p(), ctypes.c_size_t()
        arguments = (self._handle, previous, token, ctypes.byref(data), ctypes.byref(length))
        self._api.fn.ml_tokenizer_decode(*arguments)
        return ctypes.string_at(data, length.value) if data.value else b""

    def is_added(self, token: int) -> bool:
        """Whether a token stands for itself (<s>, <|im_end|>) and not for text."""
        return bool(self._api.fn.ml_tokenizer_is_added(self._handle, token))

    def is_silent(self, token: int) -> bool:
        """Whether a token is no part of an answer's text: added, and neither white space nor a tag of HTML."""
        return bool(self._api.fn.ml_tokenizer_is_silent(self._handle, token))

    def decode(self, ids: Iterable[int], added: bool = True) -> str:
        """The text of `ids`; `added` False leaves added tokens out."""
        previous, pieces = -1, []
        for token in ids:
            if added or not self.is_added(token):
                pieces.append(self.piece(previous, token))
            previous = token
        return b"".join(pieces).decode("utf-8", "replace")

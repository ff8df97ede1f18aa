"""A model's engine for many sequences at once: rows in, logits and choices out, pages of the cache between."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from krafla.runtime.model import Model, Sampling

if TYPE_CHECKING:
    from krafla.runtime.bind import Api

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]


class Batch:
    """Takes over the engine of a model, which then generates nothing itself. For one thread at a time.

    Rows are int32 arrays (n, 4) of sequence, position, token, and 1 where logits are wanted.
    """

    def __init__(self, model: Model) -> None:
        self.config = model.config
        self.api: Api
        self.api, self._engine = model.hand_over()
        self.pages = model.config.pages
        self.page = model.config.page  # positions in one
        self.linear = model.linear
        self.vocab = model.config.vocab
        self._logits: Floats = np.empty((0, self.vocab), np.float32)
        self._int = ctypes.c_int32()
        self._row = ctypes.POINTER(self.api.types.ml_row)
        self._choice_bytes = ctypes.sizeof(self.api.types.ml_choice)
        self._logits_offset: int = self.api.types.ml_choice.logits.offset
        self._float = ctypes.POINTER(ctypes.c_float)

    def open(self) -> int:
        """A new empty sequence; OutOfMemoryError if all are open."""
        self.api.fn.ml_sequence_open(self._engine, ctypes.byref(self._int))
        return self._int.value

    def resume(self, pages: Sequence[int], length: int) -> tuple[int, int]:
        """A new sequence on held pages, and its length: less than asked for if the model has a state."""
        array = (ctypes.c_int32 * max(len(pages), 1))(*pages)
        self.api.fn.ml_sequence_resume(self._engine, array, length, ctypes.byref(self._int))
        sequence = self._int.value
        return sequence, self.api.fn.ml_sequence_length(self._engine, sequence)

    def close(self, sequence: int) -> None:
        """Close a sequence; pages that nobody else has become free."""
        self.api.fn.ml_sequence_close(self._engine, sequence)

    def truncate(self, sequence: int, length: int) -> None:
        """Forget positions from `length` on."""
        self.api.fn.ml_sequence_truncate(self._engine, sequence, length)

    def length(self, sequence: int) -> int:
        """How many positions a sequence has."""
        return int(self.api.fn.ml_sequence_length(self._engine, sequence))

    def pages_of(self, sequence: int) -> list[int]:
        """The pages of a sequence, in order."""
        count = self.api.fn.ml_sequence_pages(self._engine, sequence, None, 0)
        array = (ctypes.c_int32 * max(count, 1))()
        self.api.fn.ml_sequence_pages(self._engine, sequence, array, count)
        return list(array[:count])

    def hold(self, page: int) -> None:
        """Keep a page when its sequences are closed."""
        self.api.fn.ml_page_hold(self._engine, page)

    def drop(self, page: int) -> None:
        """Let go of a held page."""
        self.api.fn.ml_page_drop(self._engine, page)

    def free_pages(self) -> int:
        """How many pages nobody has."""
        return int(self.api.fn.ml_pages_free(self._engine))

    def pages_needed(self, rows: Rows) -> int:
        """How many free pages `forward` would take for these rows."""
        return int(self.api.fn.ml_forward_pages(self._engine, self._pointer(rows), len(rows)))

    def forward(self, rows: Rows) -> Floats:
        """The logits (wanted, vocab) of the rows that want them, in their order; valid until the next call."""
        wanted = int(np.count_nonzero(rows[:, 3]))
        if wanted > len(self._logits):
            self._logits = np.empty((max(wanted, 2 * len(self._logits)), self.vocab), np.float32)
        target = self._logits.ctypes.data_as(self._float)
        self.api.fn.ml_forward(self._engine, self._pointer(rows), len(rows), target)
        return self._logits[:wanted]

    def forward_states(self, rows: Rows) -> Floats:
        """The normalized last hidden states (wanted, dim) of the rows that want them."""
        states = np.empty((int(np.count_nonzero(rows[:, 3])), self.config.dim), np.float32)
        target = states.ctypes.data_as(self._float)
        self.api.fn.ml_forward_states(self._engine, self._pointer(rows), len(rows), target)
        return states

    def choose(self, choices: Sequence[tuple[Choice, Floats]]) -> None:
        """Make choices from rows of logits, on all threads; each Choice then has its result."""
        native = (self.api.types.ml_choice * len(choices))()
        for one, (choice, logits) in zip(native, choices, strict=True):
            address = ctypes.addressof(one)
            ctypes.memmove(address, choice.address, self._choice_bytes)
            ctypes.c_void_p.from_address(address + self._logits_offset).value = logits.ctypes.data
        self.api.fn.ml_choose(self._engine, native, len(choices))
        for one, (choice, _) in zip(native, choices, strict=True):
            choice.native.token = one.token
            choice.native.logprob = one.logprob

    def _pointer(self, rows: Rows) -> Any:
        assert rows.dtype == np.int32 and rows.flags.c_contiguous
        return rows.ctypes.data_as(self._row)


class Choice:
    """How one sequence's tokens are chosen: an ml_choice, and the arrays that it points to.

    `tokens` are those before; penalties count the ones from `answer_from` on as the answer.
    """

    def __init__(
        self,
        batch: Batch,
        sampling: Sampling | None = None,
        seed: int = 0,
        *,
        repeat: float = 1.0,
        presence: float = 0.0,
        frequency: float = 0.0,
        bias: Mapping[int, float] | None = None,
        logprobs: int | None = None,
        tokens: Sequence[int] = (),
    ) -> None:
        types = batch.api.types
        self.native = types.ml_choice(repeat=repeat, presence=presence, frequency=frequency, n_top=-1)
        self.address = ctypes.addressof(self.native)
        self._fields = dict(types.ml_choice._fields_)
        self._kept: list[Any] = []
        self._seen: npt.NDArray[np.uint8] | None = None
        self._counts: npt.NDArray[np.int32] | None = None
        self._mask: npt.NDArray[np.uint32] | None = None
        if sampling is not None:
            self.sampler = types.ml_sampler(
                sampling.temperature, sampling.top_p, sampling.min_p, sampling.top_k
            )
            batch.api.fn.ml_sampler_seed(ctypes.byref(self.sampler), seed % 2**64)
            self.native.sampler = ctypes.pointer(self.sampler)
        if repeat != 1.0:
            self._seen = np.zeros(batch.vocab, np.uint8)
            self._seen[list(tokens)] = 1
            self._point("seen", self._seen)
        if presence or frequency:
            self._counts = np.zeros(batch.vocab, np.int32)
            self._point("counts", self._counts)
        if bias:
            self.native.n_bias = len(bias)
            self._point("bias_ids", np.array(list(bias), np.int32))
            self._point("bias", np.array(list(bias.values()), np.float32))
        if logprobs is not None:
            self.native.n_top = logprobs
            self.top_ids = np.zeros(max(logprobs, 1), np.int32)
            self.top_logprobs = np.zeros(max(logprobs, 1), np.float32)
            self._point("top_ids", self.top_ids)
            self._point("top_logprobs", self.top_logprobs)

    def allow(self, mask: npt.NDArray[np.uint32] | None) -> None:
        """The tokens that may come next, 32 in a word; None: all."""
        self._mask = None if mask is None else np.ascontiguousarray(mask).view(np.uint32)
        if self._mask is None:
            self.native.allowed = self._fields["allowed"]()
        else:
            self.native.allowed = self._mask.ctypes.data_as(self._fields["allowed"])

    def note(self, token: int) -> None:
        """A token was chosen: the penalties count it."""
        if self._seen is not None:
            self._seen[token] = 1
        if self._counts is not None:
            self._counts[token] += 1

    def score(self, token: int) -> Choice:
        """Ask for the log-probability of this token instead of choosing one."""
        self.native.token = token
        return self

    @property
    def token(self) -> int:
        """What was chosen."""
        return int(self.native.token)

    @property
    def logprob(self) -> float:
        """Its log-probability."""
        return float(self.native.logprob)

    @property
    def top(self) -> tuple[tuple[int, float], ...]:
        """The likeliest tokens and their log-probabilities, if asked for."""
        count = max(self.native.n_top, 0)
        pairs = (
            zip(self.top_ids[:count].tolist(), self.top_logprobs[:count].tolist(), strict=True)
            if count
            else ()
        )
        return tuple((token, logprob) for token, logprob in pairs if token >= 0)

    def _point(self, name: str, array: npt.NDArray[Any]) -> None:
        self._kept.append(array)
        setattr(self.native, name, array.ctypes.data_as(self._fields[name]))

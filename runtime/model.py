"""A language model, loaded and ready: encode, decode, logits and text generation."""

from __future__ import annotations

import ctypes
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from krafla.runtime import progress
from krafla.runtime.bind import Api
from krafla.runtime.isas import IsaFacts
from krafla.runtime.resolve import ModelFiles, resolve
from krafla.runtime.text import TextStream
from krafla.runtime.tokenizer import Tokenizer
from krafla.tools.chat_template import ChatTemplate, Message
from krafla.tools.errors import AccessError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from krafla.runtime.speculate import Guesser

KV_TYPES = ("f32", "f16", "q8")
#: Loading that takes no longer than these seconds needs no progress bar.
PATIENCE = 0.5


@dataclass(frozen=True)
class Config:
    """What a loaded model is, and what it takes; the fields of ml_info in krafla.h."""

    dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_dim: int
    vocab: int
    max_seq: int
    wtype: int
    context: int
    batch: int
    threads: int
    kv_type: int
    packed: int
    linear: int
    pages: int
    page: int
    pack_cache_hit: int
    file_bytes: int
    weight_bytes: int
    arena_bytes: int
    kv_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Options:
    """How to load a model; zero and None leave the choice to the engine."""

    threads: int | None = None
    ctx: int | None = None
    kv: str = "f32"
    pack: bool = True
    batch: int | None = None
    pack_cache: bool = False
    profile: bool = False
    imatrix: bool = False
    sequences: int | None = None
    positions: int | None = None

    def __post_init__(self) -> None:
        if self.kv not in KV_TYPES:
            raise UsageError(f"kv is {self.kv}, must be one of {', '.join(KV_TYPES)}")
        for name in ("threads", "ctx", "batch", "sequences", "positions"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}, must be at least 1")


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen: greedily at temperature 0, else at random among the likely ones."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        ranges = {
            "temperature": (self.temperature >= 0, "at least 0"),
            "top_p": (0 < self.top_p <= 1, "above 0 and at most 1"),
            "top_k": (0 <= self.top_k < 2**31, "at least 0"),
            "min_p": (0 <= self.min_p <= 1, "between 0 and 1"),
        }
        for name, (inside, bounds) in ranges.items():
            if not inside:
                raise UsageError(f"{name} is {getattr(self, name)}, must be {bounds}")


class Model:
    """An open model: `Model.load` opens one, `close` or a `with` block releases it."""

    def __init__(
        self,
        files: ModelFiles,
        api: Api,
        isa: IsaFacts,
        options: Options,
        report: progress.Report = progress.silent,
        announce: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._api = api
        self._engine = ctypes.c_void_p()
        self._held: list[int] = []  # the tokens that the sequence holds
        self.tokenizer: Tokenizer | None = None
        self.isa = isa.name
        self.files = files
        self.template = files.template.read_text(encoding="utf-8") if files.template else None
        try:
            native = _options(api, files, isa, options)
            announce(_prediction(api, files, native))
            _open(api, self._engine, files, native, report)
            self.config = _config(api, self._engine)
            if notice := api.fn.ml_engine_notice(self._engine).decode():
                announce(notice)
            if files.tokenizer:
                self.tokenizer = Tokenizer(api, files.tokenizer, self.config.vocab)
            sequence = ctypes.c_int32()
            api.fn.ml_sequence_open(self._engine, ctypes.byref(sequence))
        except BaseException:
            self.close()
            raise
        self._sequence = sequence.value
        self._logits = (ctypes.c_float * self.config.vocab)()

    @classmethod
    def load(
        cls,
        path: str | PathLike[str] | None = None,
        isa: str | None = None,
        threads: int | None = None,
        ctx: int | None = None,
        kv: str = "f32",
        pack: bool = True,
        *,
        batch: int | None = None,
        pack_cache: bool = False,
        profile: bool = False,
        imatrix: bool = False,
        sequences: int | None = None,
        positions: int | None = None,
        report: progress.Report = progress.silent,
        announce: Callable[[str], None] = lambda sentence: None,
    ) -> Model:
        """Open a model: an .mlb or .gguf file, a Hugging Face folder, or a name that `krafla pull` knows.

        `imatrix` adds up an importance matrix, for `write_imatrix`. `sequences` and `positions` size an engine
        for `Batch`: how many texts at once, and how many positions they share.
        `report` is told how far slow steps are, `announce` what memory it will take and other notices.
        """
        from krafla.runtime.engine import engine

        options = Options(threads, ctx, kv, pack, batch, pack_cache, profile, imatrix, sequences, positions)
        api, facts = engine(isa, report)
        return cls(resolve(path, report), api, facts, options, report, announce)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Release the model's memory; closing twice is fine."""
        if self.tokenizer:
            self.tokenizer.close()
        if self._engine:
            self._api.fn.ml_engine_close(self._engine)
            self._engine = ctypes.c_void_p()

    def hand_over(self) -> tuple[Api, ctypes.c_void_p]:
        """For `Batch`: the library and the engine, with no sequence open. The model cannot generate any more."""
        self._api.fn.ml_sequence_close(self._engine, self._sequence)
        return self._api, self._engine

    @property
    def linear(self) -> bool:
        """Whether it has linear attention: a state that cannot go back token by token."""
        return bool(self.config.linear)

    def encode(self, text: str, bos: bool | None = None) -> list[int]:
        """The token ids of `text`; `bos` None puts a beginning-of-text token where the model wants one."""
        return self._need_tokenizer().encode(text, bos)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids."""
        return self._need_tokenizer().decode(ids)

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """The chat template, compiled; UsageError if the model has none, FormatError if it is broken."""
        if self.template is None:
            raise UsageError(f"{self.files.mlb.name}: the model has no chat template")
        tokenizer = self._need_tokenizer()
        bos, eos = (tokenizer.decode([i]) if i >= 0 else "" for i in (tokenizer.bos, tokenizer.first_eos))
        return ChatTemplate(self.template, bos, eos, self.files.mlb.name)

    def chat_ids(self, messages: Sequence[Message], **variables: Any) -> list[int]:
        """The token ids of a conversation, by the model's chat template, ready for its next message."""
        return self._need_tokenizer().encode(self.chat_template.render(messages, **variables), bos=False)

    def logits(self, ids: Sequence[int], batch: int = 128) -> npt.NDArray[np.float32]:
        """The logits after each of `ids`, from position 0: an array (len(ids), vocab)."""
        import numpy as np

        if batch < 1:
            raise UsageError(f"batch is {batch}, must be at least 1")
        self._check_length(len(ids))
        result = np.empty((len(ids), self.config.vocab), np.float32)
        self._truncate(0)
        for start in range(0, len(ids), batch):
            self._logits_into(result[start : start + batch], ids, start)
        self._held = list(ids)
        return result

    def logits_in_parts(
        self, ids: Sequence[int], batch: int = 128, first: int = 0
    ) -> Iterator[npt.NDArray[np.float32]]:
        """The same in arrays of `batch` rows, for texts whose logits would not fit into memory.

        Logits of the positions before `first` are not computed.
        """
        import numpy as np

        self._check_length(len(ids))
        self._truncate(0)
        for start in range(0, first, batch):
            rows = self._rows(ids, start, min(start + batch, first), every=False)
            self._api.fn.ml_forward(self._engine, rows, len(rows), self._logits)
        for start in range(first, len(ids), batch):
            part = np.empty((min(batch, len(ids) - start), self.config.vocab), np.float32)
            self._logits_into(part, ids, start)
            yield part
        self._held = list(ids)

    def _logits_into(self, out: npt.NDArray[np.float32], ids: Sequence[int], start: int) -> None:
        rows = self._rows(ids, start, start + len(out), every=True)
        target = out.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self._api.fn.ml_forward(self._engine, rows, len(rows), target)

    def generate(
        self,
        prompt: str | Sequence[int],
        max_tokens: int | None = None,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
        *,
        top_k: int = 0,
        min_p: float = 0.0,
        guesser: Guesser | None = None,
    ) -> Generation:
        """Continue the prompt: iterate over the result for pieces of text, whole characters each.

        Stops at an end-of-text token, after `max_tokens`, or when the context is full. The same seed gives
        the same text; without one, every call differs (unless the temperature is 0). A `guesser`, say
        speculate.NgramDraft(), makes it faster where it guesses well and changes nothing else.
        """
        if max_tokens is not None and max_tokens < 0:
            raise UsageError(f"max_tokens is {max_tokens}, must be at least 0")
        sampling = Sampling(temperature, top_p, top_k, min_p)
        ids = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        if not ids and self.tokenizer and self.tokenizer.bos >= 0:
            ids = [self.tokenizer.bos]
        if not ids:
            raise UsageError("the prompt is empty")
        self._check_length(len(ids))
        if guesser is not None and self.linear:
            raise UsageError(f"{self.files.mlb.name} has linear attention, which cannot take guesses back")
        chosen = secrets.randbits(32) if seed is None else seed
        return Generation(self, ids, max_tokens, sampling, chosen, guesser)

    def write_imatrix(self, path: str | PathLike[str]) -> None:
        """Write the importance matrix of all tokens so far; the model must be loaded with imatrix=True."""
        self._api.fn.ml_imatrix_write(self._engine, os.fsencode(path))

    def profile(self) -> dict[str, float]:
        """Seconds per stage of the forward pass so far; all zero unless loaded with profile=True."""
        count = self._api.const.ML_PROFILE_STAGES
        seconds = (ctypes.c_double * count)()
        self._api.fn.ml_profile_read(self._engine, seconds)
        return {self._api.fn.ml_profile_stage_name(i).decode(): seconds[i] for i in range(count)}

    def _need_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            wanted = f"{self.files.mlb.with_suffix('.mlt').name} or tokenizer.bin"
            raise AccessError(f"{self.files.mlb.name}: there is no tokenizer beside it ({wanted})")
        return self.tokenizer

    def _check_length(self, count: int) -> None:
        if count > self.config.context:
            raise UsageError(
                f"the prompt has {count} tokens, the context holds {self.config.context} "
                f"(set it with -c, at most {self.config.max_seq} for this model)"
            )

    def _truncate(self, length: int) -> None:
        """Cut the sequence, and what is known of it first: an interruption must leave no more than is there."""
        del self._held[length:]
        if self._api.fn.ml_sequence_length(self._engine, self._sequence) != length:
            self._api.fn.ml_sequence_truncate(self._engine, self._sequence, length)

    def _rows(self, ids: Sequence[int], start: int, end: int, every: bool) -> Any:
        last = len(ids) - 1
        rows = (self._api.types.ml_row * (end - start))()
        for row, position in zip(rows, range(start, end), strict=True):
            wanted = every or position == last
            row.sequence, row.position, row.token = self._sequence, position, ids[position]
            row.wants_logits = int(wanted)
        return rows

    def prefill(self, ids: Sequence[int], report: progress.Report = progress.silent) -> int:
        """Read `ids` ahead of a `generate` that begins with them; how many were there from an earlier one.

        `report` is called after each batch; what it raises ends the reading, and what was read is kept.
        """
        self._check_length(len(ids))
        start = self._keep(ids, len(ids))
        for first in range(start, len(ids), self.config.batch):
            self._step(ids, first)
            report("reading", min(first + self.config.batch, len(ids)) - start, len(ids) - start)
        return start

    def _advance(self, ids: list[int]) -> Any:
        """Make the sequence hold `ids`, keeping the prefix it has already; the last one's logits."""
        for first in range(self._keep(ids, len(ids) - 1), len(ids), self.config.batch):
            self._step(ids, first)
        return self._logits

    def _advance_beyond(self, ids: list[int], guesses: list[int]) -> Any:
        """The same when all but the last of `ids` are there, with the logits after each of `guesses`, too."""
        first = self._keep(ids, len(ids) - 1)
        rows = self._rows([*ids, *guesses], first, len(ids) + len(guesses), every=True)
        if len(rows) * self.config.vocab > len(self._logits):
            self._logits = (ctypes.c_float * (len(rows) * self.config.vocab))()
        self._api.fn.ml_forward(self._engine, rows, len(rows), self._logits)
        self._held += [*ids[first:], *guesses]
        return self._logits

    def _step(self, ids: Sequence[int], first: int) -> None:
        """A batch of `ids` from position `first` on; only the last of all has logits."""
        rows = self._rows(ids, first, min(first + self.config.batch, len(ids)), every=False)
        self._api.fn.ml_forward(self._engine, rows, len(rows), self._logits)
        self._held.extend(ids[first : first + len(rows)])

    def _keep(self, ids: Sequence[int], most: int) -> int:
        """Cut the sequence to what it has in common with `ids`, `most` positions at most; its length."""
        start = 0
        for held, wanted in zip(self._held, ids[:most], strict=False):
            if held != wanted:
                break
            start += 1
        # A model with a state may have to go back further.
        reachable: int = self._api.fn.ml_sequence_reachable(self._engine, self._sequence, start)
        self._truncate(reachable)
        return reachable


class Generation:
    """Text as it is generated; afterwards `finish` says why it ended: stop, length, context or interrupted."""

    def __init__(
        self,
        model: Model,
        prompt: list[int],
        max_tokens: int | None,
        sampling: Sampling,
        seed: int,
        guesser: Guesser | None = None,
    ) -> None:
        self.prompt = prompt
        self.ids: list[int] = []
        self.finish: str | None = None
        self.seed = seed
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0
        self._model = model
        self.guessed = self.guessed_right = 0
        self._guesser = guesser
        self._chosen: list[int] = []  # tokens that guesses gave already
        self._limit = max_tokens
        self._sampling = sampling
        self._sampler = model._api.types.ml_sampler()
        for field in fields(sampling):
            setattr(self._sampler, field.name, getattr(sampling, field.name))
        model._api.fn.ml_sampler_seed(ctypes.byref(self._sampler), seed % 2**64)
        self._scratch = (ctypes.c_uint32 * (2 * model.config.vocab))()
        self._pieces = self._run()

    def __iter__(self) -> Iterator[str]:
        return self

    def cancel(self) -> None:
        """End after the token that is being made; `finish` will be interrupted. For signal handlers, threads."""
        self.finish = "interrupted"

    def __next__(self) -> str:
        return next(self._pieces)

    def _run(self) -> Iterator[str]:
        tokenizer, stream = self._model.tokenizer, TextStream()
        all_ids = list(self.prompt)
        while (token := self._next_token(all_ids)) is not None:
            previous = all_ids[-1]
            all_ids.append(token)
            self.ids.append(token)
            if tokenizer is None or tokenizer.is_silent(token):
                continue
            if text := stream.push(tokenizer.piece(previous, token)):
                yield text
        if text := stream.finish():
            yield text

    def _next_token(self, all_ids: list[int]) -> int | None:
        model = self._model
        if self.finish:
            return None
        if self._limit is not None and len(self.ids) >= self._limit:
            self.finish = "length"
        elif len(all_ids) > model.config.context:
            self.finish = "context"
        if self.finish:
            return None
        started = time.perf_counter()
        if not self._chosen:
            self._choose(all_ids)
        token = self._chosen.pop(0)
        elapsed = time.perf_counter() - started
        if self.ids:
            self.decode_seconds += elapsed
        else:
            self.prefill_seconds += elapsed
        if model.tokenizer and token in model.tokenizer.eos:
            self.finish = "stop"
            return None
        return token

    def _choose(self, all_ids: list[int]) -> None:
        """Choose the next token, and where guesses are right, those after it: each from its own logits."""
        model, guesses = self._model, self._guess(all_ids)
        logits = model._advance_beyond(all_ids, guesses) if guesses else model._advance(all_ids)
        for i in range(len(guesses) + 1):
            row = ctypes.byref(logits, i * model.config.vocab * ctypes.sizeof(ctypes.c_float))
            floats = ctypes.cast(row, ctypes.POINTER(ctypes.c_float))
            arguments = (ctypes.byref(self._sampler), floats, model.config.vocab, self._scratch)
            self._chosen.append(model._api.fn.ml_sample(*arguments))
            if i == len(guesses) or self._chosen[i] != guesses[i]:
                break
        if self._guesser and guesses:
            self._guesser.learn(len(guesses), len(self._chosen) - 1)
            self.guessed += len(guesses)
            self.guessed_right += len(self._chosen) - 1

    def _guess(self, all_ids: list[int]) -> list[int]:
        """Guesses after the first token; no more than there is room and use for."""
        config = self._model.config
        limit = min(config.batch - 1, config.context - len(all_ids))
        if self._limit is not None:
            limit = min(limit, self._limit - len(self.ids) - 1)
        if self._guesser is None or not self.ids or limit < 1:
            return []
        return self._guesser.guess(all_ids, limit, self._sampling, self._sampler)


def _options(api: Api, files: ModelFiles, isa: IsaFacts, options: Options) -> Any:
    native = api.types.ml_options(
        threads=options.threads or 0,
        context=options.ctx or 0,
        batch=options.batch or 0,
        kv_type=KV_TYPES.index(options.kv),
        pack=options.pack,
        profile=options.profile,
        imatrix=options.imatrix,
        sequences=options.sequences or 0,
        positions=options.positions or 0,
    )
    if options.pack_cache and isa.pack_group:
        native.pack_cache = str(files.mlb.with_suffix(f".pk{isa.pack_group}")).encode()
    return native


def _prediction(api: Api, files: ModelFiles, native: Any) -> str:
    info = api.types.ml_info()
    api.fn.ml_engine_predict(ctypes.byref(info), str(files.mlb).encode(), ctypes.byref(native))
    parts = {"weights": info.weight_bytes, f"context of {info.context}": info.kv_bytes}
    listed = ", ".join(f"{what} {size / 1e6:.0f} MB" for what, size in parts.items())
    return f"{files.mlb.name} takes at most {info.peak_bytes / 1e6:.0f} MB of memory ({listed})"


def _open(api: Api, handle: ctypes.c_void_p, files: ModelFiles, native: Any, report: progress.Report) -> None:
    interrupted: list[BaseException] = []
    started = time.monotonic()

    def on_progress(_: int, what: bytes, done: int, total: int) -> int:
        try:
            if time.monotonic() - started > PATIENCE:
                report(what.decode(), done, total)
        except BaseException as error:  # must not leave through C; raised again below
            interrupted.append(error)
        return int(bool(interrupted))

    native.progress = api.types.ml_progress(on_progress)
    try:
        api.fn.ml_engine_open(ctypes.byref(handle), str(files.mlb).encode(), ctypes.byref(native))
    finally:
        if interrupted:
            raise interrupted[0]


def _config(api: Api, handle: ctypes.c_void_p) -> Config:
    info = api.types.ml_info()
    api.fn.ml_engine_info(handle, ctypes.byref(info))
    return Config(**{field.name: getattr(info, field.name) for field in fields(Config)})


__all__ = ["Config", "Generation", "Model", "Options", "Sampling"]

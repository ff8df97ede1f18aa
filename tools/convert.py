"""Converts checkpoints to .mlb: GGUF files, Hugging Face folders, llama2.c checkpoints."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from krafla.tools.architectures import LLAMA2C, Architecture, Settings, read_settings
from krafla.tools.architectures_gguf import GGUF, ROPE_FREQS, read_rope_freqs
from krafla.tools.architectures_hf import HF
from krafla.tools.convert_tokenizer import convert_tokenizer
from krafla.tools.errors import FormatError, KraflaError, ShapeError, UsageError, access
from krafla.tools.imatrix import read_imatrix
from krafla.tools.mlb import CLASSES, Q4_0, Q8_0, Header, Tensor, Writer, tensor_shapes, validate
from krafla.tools.orders import Index, gather, whole_blocks
from krafla.tools.quantize import F32, I8, Q4Rule
from krafla.tools.sources import Source, SourceTensor, block_multiple, clean_blocks, matrix_shape, open_source

ARCHITECTURES: dict[str, dict[str, Architecture]] = {"hf": HF, "gguf": GGUF, "llama2c": LLAMA2C}
# Weights held at a time: 16 MiB of floats.
_CHUNK = 1 << 22
# Called with the tensor's name and how many of all weights are done.
ProgressCallback: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Options:
    """What to make of a checkpoint."""

    type: Literal["q8_0", "q4_0"] = "q8_0"
    f16_scales: bool = False
    q8: tuple[str, ...] = ()  # classes of matrices that stay Q8_0 in a Q4_0 model
    q4_rule: Q4Rule | None = None  # None: search, but round for Gemma 3
    max_seq: int | None = None  # shortens the longest context
    tokenizer: bool = True  # also write the .mlt and .jinja beside the model
    imatrix: Path | None = None  # an importance matrix, by which the search weighs errors

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.q8) - set(CLASSES)):
            raise UsageError(
                f"unknown matrix class {', '.join(unknown)}, must be one of {', '.join(CLASSES)}"
            )
        if self.q8 and self.type != "q4_0":
            raise UsageError("matrix classes can only be kept as Q8_0 in a Q4_0 model")
        if self.imatrix and (self.type != "q4_0" or self.q4_rule == "round"):
            raise UsageError("an importance matrix is for the search of Q4_0 scales")

    @property
    def q8_mask(self) -> int:
        """The header's bits for the classes."""
        return sum(CLASSES[name] for name in set(self.q8))


def convert(
    source: str | PathLike[str],
    destination: str | PathLike[str],
    options: Options | None = None,
    progress: ProgressCallback | None = None,
) -> Header:
    """Convert SOURCE to the .mlb file DESTINATION and return its header; on error nothing is left behind."""
    options = options or Options()
    checkpoint = open_source(Path(source))
    plan = Plan.make(checkpoint, options)
    total = sum(tensor.rows * tensor.cols for tensor, _ in plan.pairs())
    done = 0
    with (
        Writer(destination, plan.header, plan.layer_flags, plan.q4_rule(options), plan.importance) as writer,
        _tokenizer(checkpoint, Path(destination), plan.header, options) as tokenizer_files,
    ):
        for tensor, origin in plan.pairs(writer):
            for weights in _copy(writer, tensor, origin, plan):
                done += weights
                if progress:
                    progress(tensor.name, done, total)
        _move(tokenizer_files)
    return plan.header


@dataclass(frozen=True)
class Plan:
    """The header to write, and which tensor comes from where."""

    source: Source
    architecture: Architecture
    header: Header
    layer_flags: bytes
    origins: dict[str, SourceTensor]
    importance: dict[str, F32]

    @staticmethod
    def make(source: Source, options: Options) -> Plan:
        """Read the configuration, find every tensor, and check shapes before anything is written."""
        known = ARCHITECTURES[source.kind]
        if source.architecture not in known:
            name = source.architecture or "(none)"
            raise FormatError(
                f"{source.config_name}: architecture {name} is unknown, known: {', '.join(known)}"
            )
        architecture = known[source.architecture]
        settings = read_settings(architecture, source.config, source.config_name)
        tensors = _renamed(source, architecture)
        if freqs := tensors.pop(ROPE_FREQS, None):
            read_rope_freqs(freqs.rows(0, 1).ravel(), freqs.where, settings)
        header = _header(source, tensors, architecture, settings, options)
        origins = _origins(architecture, header, settings, tensors, source)
        padded = replace(header, hidden_dim=block_multiple(header.hidden_dim))
        validate(padded.as_stored(), source.config_name, settings.layer_flags)
        importance = read_imatrix(options.imatrix, padded, settings.layer_flags) if options.imatrix else {}
        return Plan(source, architecture, padded, settings.layer_flags, origins, importance)

    def q4_rule(self, options: Options) -> Q4Rule:
        """The rule that was asked for, or the architecture's."""
        return options.q4_rule or ("search" if self.importance else self.architecture.q4_rule)

    def pairs(self, writer: Writer | None = None) -> Iterator[tuple[Tensor, SourceTensor]]:
        """Every tensor of the file with its origin."""
        for name, rows, cols, _ in tensor_shapes(self.header, self.layer_flags):
            tensor = writer.tensors[name] if writer else Tensor(name, rows, cols, 0, 0, 0, 4, 0)
            yield tensor, self.origins[name]


def _renamed(source: Source, architecture: Architecture) -> dict[str, SourceTensor]:
    """The checkpoint's tensors, with the prefixes of nested models taken off."""
    tensors = {}
    for name, tensor in source.tensors.items():
        for prefix, other in architecture.renames:
            if name.startswith(prefix):
                name = other + name.removeprefix(prefix)
                break
        tensors[name] = tensor
    return tensors


def _header(
    source: Source,
    tensors: dict[str, SourceTensor],
    architecture: Architecture,
    settings: Settings,
    options: Options,
) -> Header:
    """The header with the checkpoint's own FFN width, not yet padded."""
    fields: dict[str, Any] = dict(settings.fields)
    embedding = tensors.get(architecture.names["tok_emb"])
    if embedding is None:
        raise FormatError(f"{source.path}: {architecture.names['tok_emb']} is missing")
    if source.kind == "gguf":
        fields["vocab"] = embedding.shape[0]
        fields["shared_classifier"] = int(architecture.names["wcls"] not in tensors)
    fields.setdefault("vocab", embedding.shape[0])
    if (
        fields["dim"] % fields["n_heads"] == 0
        and fields.get("head_dim") == fields["dim"] // fields["n_heads"]
    ):
        fields["head_dim"] = 0
    if options.max_seq is not None:
        if not 1 <= options.max_seq <= fields["max_seq"]:
            raise UsageError(f"max-seq is {options.max_seq}, the model allows 1 to {fields['max_seq']}")
        fields["max_seq"] = options.max_seq
    fields["wtype"] = Q4_0 if options.type == "q4_0" else Q8_0
    fields["q8_mask"] = options.q8_mask
    fields["scale_f16"] = int(options.f16_scales)
    fields["layer_flags"] = int(bool(settings.layer_flags))
    header = Header(**fields)
    if not header.head_dim and header.dim % header.n_heads:
        raise ShapeError(
            f"{source.config_name}: n_heads is {header.n_heads}, must divide the width ({header.dim})"
        )
    return header


def _origins(
    architecture: Architecture,
    header: Header,
    settings: Settings,
    tensors: dict[str, SourceTensor],
    source: Source,
) -> dict[str, SourceTensor]:
    """Find the source of every tensor; missing, extra and misshapen ones are errors."""
    origins: dict[str, SourceTensor] = {}
    used = {architecture.names["wcls"]} if header.shared_classifier else set()
    for name, rows, cols, _ in tensor_shapes(header, settings.layer_flags):
        theirs = _their_name(architecture, name)
        if theirs not in tensors:
            raise FormatError(f"{source.path}: {theirs} is missing")
        origins[name] = tensor = tensors[theirs]
        used.add(theirs)
        rows *= architecture.times.get(_short(name), 1)
        if matrix_shape(tensor.shape) != (rows, cols):
            want = [rows, cols] if rows > 1 else [cols]
            raise ShapeError(f"{tensor.where}: {theirs} has the shape {list(tensor.shape)}, must have {want}")
    dropped = (*architecture.dropped, *settings.dropped)
    for theirs, tensor in tensors.items():
        if theirs not in used and not any(re.fullmatch(p, theirs) for p in dropped):
            raise FormatError(f"{tensor.where}: {theirs} is a tensor that this architecture does not have")
    return origins


def _their_name(architecture: Architecture, name: str) -> str:
    match = re.fullmatch(r"layers\.(\d+)\.(.*)", name)
    if not match:
        return architecture.names[name]
    return architecture.names[f"layers.{{i}}.{match[2]}"].format(i=match[1])


def _short(name: str) -> str:
    return name.rpartition(".")[2]


@dataclass(frozen=True)
class Copy:
    """One tensor on its way: where from, and in which order of rows (a vector's entries) and columns."""

    tensor: Tensor
    origin: SourceTensor
    rows: Index | None
    columns: Index | None
    value: Callable[[F32], F32] | None

    @staticmethod
    def make(tensor: Tensor, origin: SourceTensor, plan: Plan) -> Copy:
        """How a plan copies a tensor."""
        architecture, name = plan.architecture, _short(tensor.name)
        order, columns = architecture.order(name, plan.header), architecture.columns.get(name)
        return Copy(
            tensor,
            origin,
            order(plan.header, tensor.cols if tensor.rows == 1 else _own_rows(tensor, origin))
            if order
            else None,
            columns(plan.header, tensor.cols) if columns else None,
            architecture.values.get(name),
        )

    def gather(self, read: Callable[[int, int], npt.NDArray[Any]], start: int, stop: int) -> npt.NDArray[Any]:
        """Rows [start, stop) of ours."""
        if self.rows is None or self.tensor.rows == 1:
            return read(start, stop)
        return gather(read, self.rows[start:stop])

    def blocks(self, start: int, stop: int) -> tuple[I8, F32] | None:
        """Rows as the source quantized them, if they can be copied unchanged."""
        same = (self.origin.quantized, self.tensor.kind) in (("q8_0", Q8_0), ("q4_0", Q4_0))
        read = self.origin.blocks
        if not same or read is None or self.value:
            return None
        columns = whole_blocks(self.columns) if self.columns is not None else None
        if self.columns is not None and columns is None:
            return None
        quants = self.gather(lambda low, high: read(low, high)[0], start, stop)
        scales = self.gather(lambda low, high: read(low, high)[1], start, stop)
        if columns is not None:
            quants, scales = quants[:, self.columns], scales[:, columns]
        return (quants, scales) if clean_blocks((quants, scales)) else None

    def values(self, start: int, stop: int) -> F32:
        """Rows as floats."""
        values: F32 = self.gather(self.origin.rows, start, stop)
        if not np.isfinite(values).all():
            raise FormatError(f"{self.origin.where}: {self.origin.name} has a weight that is NaN or infinite")
        if self.rows is not None and self.tensor.rows == 1:
            values = values[:, self.rows]
        if self.columns is not None:
            values = values[:, self.columns]
        if self.value:
            try:
                values = self.value(values)
            except ValueError as error:
                raise FormatError(f"{self.origin.where}: {self.origin.name} {error}") from error
        if self.tensor.cols > values.shape[1]:
            values = np.pad(values, ((0, 0), (0, self.tensor.cols - values.shape[1])))
        return values


def _own_rows(tensor: Tensor, origin: SourceTensor) -> int:
    """The rows that the source has of a matrix: fewer if ours is padded."""
    return min(tensor.rows, matrix_shape(origin.shape)[0])


def _copy(writer: Writer, tensor: Tensor, origin: SourceTensor, plan: Plan) -> Iterator[int]:
    """Write one tensor chunk by chunk; yields how many weights each chunk has."""
    copy = Copy.make(tensor, origin, plan)
    rows = _own_rows(tensor, origin)
    step = max(1, _CHUNK // matrix_shape(origin.shape)[1])
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        if blocks := copy.blocks(start, stop):
            writer.write_quantized(tensor.name, *blocks)
        else:
            writer.write(tensor.name, copy.values(start, stop))
        yield (stop - start) * tensor.cols
    if tensor.rows > rows:
        writer.write(tensor.name, np.zeros((tensor.rows - rows, tensor.cols), np.float32))
        yield (tensor.rows - rows) * tensor.cols


@contextmanager
def _tokenizer(
    source: Source, destination: Path, header: Header, options: Options
) -> Iterator[list[tuple[Path, Path]]]:
    """The tokenizer and chat template under temporary names (mistakes show early), with their own names.

    llama2.c's tokenizer.bin is used as it is.
    """
    if not options.tokenizer or source.kind == "llama2c":
        yield []
        return
    names = [destination.with_suffix(suffix) for suffix in (".mlt", ".jinja")]
    temporary = [name.with_name(f".{name.stem}.{os.getpid()}.tmp{name.suffix}") for name in names]
    try:
        convert_tokenizer(source.path, temporary[0], vocab=header.vocab)
        yield list(zip(temporary, names, strict=True))
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def _move(files: list[tuple[Path, Path]]) -> None:
    """Give files their own names; an older file that was not made anew must not stay behind."""
    for temporary, name in files:
        with access(name, "write"):
            if temporary.exists():
                temporary.replace(name)
            else:
                name.unlink(missing_ok=True)


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("destination", type=click.Path(path_type=Path), required=False)
@click.option("--type", "kind", type=click.Choice(["q8_0", "q4_0"]), default="q8_0", show_default=True)
@click.option("--f16-scales", is_flag=True, help="Store scales as f16: 6 % smaller (Q8_0), 10 % (Q4_0).")
@click.option("--q8", default="", help=f"Classes that stay Q8_0 in a Q4_0 model, of {','.join(CLASSES)}.")
@click.option(
    "--q4-rule",
    type=click.Choice(["search", "round"]),
    help="How Q4_0 blocks are fitted [default: search; round for Gemma 3].",
)
@click.option(
    "--imatrix", type=click.Path(path_type=Path), help="Weigh errors of Q4_0 by `krafla run --imatrix`."
)
@click.option("--max-seq", type=int, help="Shorten the longest context.")
@click.option("--no-tokenizer", is_flag=True, help="Write the model only.")
def main(
    source: Path,
    destination: Path | None,
    kind: Literal["q8_0", "q4_0"],
    f16_scales: bool,
    q8: str,
    q4_rule: Q4Rule | None,
    imatrix: Path | None,
    max_seq: int | None,
    no_tokenizer: bool,
) -> None:
    """Convert SOURCE (a .gguf, a Hugging Face folder, a llama2.c .bin) to an .mlb file."""
    target = destination or Path(source.resolve().name).with_suffix(".mlb")
    try:
        classes = tuple(part for part in q8.split(",") if part)
        options = Options(kind, f16_scales, classes, q4_rule, max_seq, not no_tokenizer, imatrix)
        convert_with_bar(source, target, options)
    except KraflaError as error:
        print(f"convert: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(target)


def convert_with_bar(source: Path, destination: Path, options: Options) -> Header:
    """Convert, with a progress bar on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"Converting {source.name}")

        def progress(name: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return convert(source, destination, options, progress)


if __name__ == "__main__":
    main()

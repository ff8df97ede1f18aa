"""From what a user calls a model to its files: .mlb, tokenizer and chat template, converted if need be."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from krafla import __version__
from krafla.runtime import cache, hub, progress, pull
from krafla.tools.errors import AccessError, FormatError, access

#: In a conversion's folder: the path of what it was made from.
ORIGIN = "origin.json"


@dataclass(frozen=True)
class ModelFiles:
    """A model's files; tokenizer and template are None where there is none beside the model."""

    mlb: Path
    tokenizer: Path | None
    template: Path | None

    @classmethod
    def beside(cls, mlb: Path) -> ModelFiles:
        """The model with whatever lies beside it."""
        tokenizers = (mlb.with_suffix(".mlt"), mlb.with_name("tokenizer.bin"))
        template = mlb.with_suffix(".jinja")
        found = next((path for path in tokenizers if path.is_file()), None)
        return cls(mlb, found, template if template.is_file() else None)


def resolve(model: str | PathLike[str] | None, report: progress.Report = progress.silent) -> ModelFiles:
    """The files of an .mlb or .gguf file, a Hugging Face folder, a known name (None: the default) or hf:ORG/NAME."""
    if model is None:
        return pulled(pull.DEFAULT, report)
    if hub.is_hub_name(str(model)):
        return pulled(str(model), report)
    path = Path(model)
    if path.is_dir():
        return _converted(path, report)
    if path.is_file():
        magic = _magic(path)
        if magic == b"GGUF":
            return _converted(path, report)
        if magic == b"MLB1" or path.suffix == ".mlb":  # what else is wrong with it, the loader says
            return ModelFiles.beside(path)
        raise FormatError(f"{path}: is neither an .mlb nor a .gguf file (it starts with {magic!r})")
    if pull.find(str(model)):
        return pulled(str(model), report)
    raise _unknown(path)


def check_exists(model: str | PathLike[str] | None) -> None:
    """AccessError if that is no file, folder or known name; nothing is read, converted or downloaded."""
    if model is None or hub.is_hub_name(str(model)) or Path(model).exists() or pull.find(str(model)):
        return
    raise _unknown(Path(model))


def _unknown(path: Path) -> AccessError:
    names = ", ".join(known.name for known in pull.KNOWN)
    return AccessError(f"{path}: no such file, and no known model ({names}) has that name")


def pulled(name: str, report: progress.Report = progress.silent) -> ModelFiles:
    """A known model or one on the hub, downloaded and converted if that has not been done before."""
    get = hub.pull if hub.is_hub_name(name) else pull.pull
    return _converted(get(name, report), report)


def is_tokenizer(path: Path) -> bool:
    """Whether a file is a tokenizer itself."""
    return path.is_file() and (path.name == "tokenizer.bin" or _magic(path) == b"MLT1")


def _magic(path: Path) -> bytes:
    with access(path, "read"), path.open("rb") as file:
        return file.read(4)


def _converted(source: Path, report: progress.Report) -> ModelFiles:
    """The source as an .mlb in the cache, made on first use."""
    cache.room("models")
    folder = conversion_folder(source)
    mlb = folder / f"{source.resolve().stem}.mlb"
    if not mlb.is_file():
        with cache.lock(folder):
            if not mlb.is_file():
                _convert(source, mlb, report)
    return ModelFiles.beside(mlb)


def conversion_folder(source: Path) -> Path:
    """The folder of the cache for the conversion of a source as it is now, whether or not it exists."""
    return cache.root() / "models" / f"{source.resolve().stem}-{_digest(source)}"


def _convert(source: Path, mlb: Path, report: progress.Report) -> None:
    """Convert for the cache, as Q8_0 with float scales: of all types the closest to the source."""
    from krafla.tools.convert import convert

    what = f"converting {source.name} (only the first time)"
    with access(mlb.parent, "make the folder"):
        mlb.parent.mkdir(exist_ok=True)
        origin = json.dumps({"source": str(source.resolve())})
        mlb.with_name(ORIGIN).write_text(origin, encoding="utf-8")
    try:
        convert(source, mlb, progress=lambda _, done, total: report(what, done, total))
    except BaseException:
        shutil.rmtree(mlb.parent, ignore_errors=True)
        raise


def _digest(source: Path) -> str:
    """Changes when the source or the converter does."""
    state = hashlib.sha256(f"{__version__} {source.resolve()}".encode())
    with access(source, "read"):
        files = sorted(source.iterdir()) if source.is_dir() else [source]
        for file in files:
            stat = file.stat()
            state.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return state.hexdigest()[:12]

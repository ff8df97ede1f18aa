"""Models from the Hugging Face hub: hf:ORG/NAME, downloaded piece by piece, resumed and verified."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from krafla import __version__
from krafla.runtime import cache, progress
from krafla.tools.errors import AccessError, FormatError, UsageError, access

PREFIX = "hf:"
PARTIAL = ".part"
CHUNK = 1 << 20
_TIMEOUT = 30
#: What a checkpoint consists of; everything else in a repository is left there.
_WANTED = re.compile(
    r"[^/]+\.safetensors|model\.safetensors\.index\.json|(config|generation_config|tokenizer|tokenizer_config|"
    r"chat_template)\.json|chat_template\.jinja"
)


class UnreachableError(AccessError):
    """The hub, or the way to it, is down."""


@dataclass(frozen=True)
class Name:
    """hf:ORG/NAME, with @REVISION and /FILE.gguf where they are given."""

    repository: str
    revision: str = "main"
    file: str = ""

    @staticmethod
    def parse(text: str) -> Name:
        """Take a name apart."""
        match = re.fullmatch(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w.-]+))?(?:/([\w./-]+\.gguf))?", text)
        if not match:
            raise UsageError(f"{text}: must be hf:ORG/NAME, with @REVISION or /FILE.gguf behind it at most")
        return Name(match[1], match[2] or "main", match[3] or "")

    def __str__(self) -> str:
        return PREFIX + self.repository

    @property
    def whole(self) -> str:
        """The name with its revision and file, as it was taken apart."""
        revision = f"@{self.revision}" if self.revision != "main" else ""
        return f"{self}{revision}{'/' if self.file else ''}{self.file}"


@dataclass(frozen=True)
class Record:
    """A model that was pulled, complete or not: its files in a folder that others may share."""

    name: str
    folder: Path
    files: tuple[str, ...]
    whole: bool

    @property
    def source(self) -> Path:
        """What is converted: the .gguf file, or the folder."""
        first = self.files[0] if self.files else ""
        return self.folder / first if first.endswith(".gguf") else self.folder

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its files as far as they are there, pieces of unfinished ones too."""
        wanted = (self.folder / name for file in self.files for name in (file, file + PARTIAL))
        return tuple(path for path in wanted if path.is_file())


@dataclass(frozen=True)
class Remote:
    """A file on the hub."""

    name: str
    size: int
    sha256: str  # of its bytes; empty for small files, which have a Git hash
    git: str

    def digest(self) -> Any:
        """An empty hash of the kind that this file has."""
        return hashlib.sha256() if self.sha256 else hashlib.sha1(f"blob {self.size}\0".encode())

    @property
    def expected(self) -> str:
        """The hash that its bytes must have."""
        return self.sha256 or self.git


def is_hub_name(model: str) -> bool:
    """Whether a user means a model on the hub."""
    return model.startswith(PREFIX)


def pull(text: str, report: progress.Report = progress.silent) -> Path:
    """The folder (or the .gguf file) of a model on the hub, downloaded as far as it is not there yet.

    When the hub does not answer, what was pulled under the same name before is taken.
    """
    name = Name.parse(text)
    hub = _Hub(name)
    try:
        commit, files = hub.list()
    except UnreachableError:
        kept = [record for record in records() if record.whole and record.name == name.whole]
        if not kept:
            raise
        report(f"{name}: the hub does not answer; the copy of an earlier download is taken", 1, 1)
        return kept[-1].source
    chosen = _choose(name, files)
    folder = cache.room("pulled") / f"{name.repository.replace('/', '--')}-{commit[:12]}"
    with access(folder, "make the folder"):
        folder.mkdir(exist_ok=True)
    total = sum(remote.size for remote in chosen)
    what = f"downloading {name} ({total / 1e6:.0f} MB)"
    done = 0
    with cache.lock(folder):
        _remember(name.whole, folder, [remote.name for remote in chosen])
        for remote in chosen:
            target = folder / remote.name
            if not (target.is_file() and target.stat().st_size == remote.size):
                _download(hub, commit, remote, target, lambda n, at=done: report(what, at + n, total))
            done += remote.size
            report(what, done, total)
    return folder / chosen[0].name if chosen[0].name.endswith(".gguf") else folder


def records() -> Iterator[Record]:
    """What was pulled, oldest names first."""
    for path in sorted((cache.root() / "pulled").glob("*.json")):
        folder = path.with_suffix("")
        for name, files in _read_record(path).items():
            whole = all((folder / file).is_file() for file in files)
            yield Record(name, folder, tuple(files), whole)


def forget(name: str) -> None:
    """Take a model that was removed out of the records."""
    for path in (cache.root() / "pulled").glob("*.json"):
        models = _read_record(path)
        if models.pop(name, None) is None:
            continue
        if models:
            _write_record(path, models)
        else:
            path.unlink(missing_ok=True)
            _remove_empty(path.with_suffix(""))


def _remove_empty(folder: Path) -> None:
    for inner in folder.glob("*/"):
        _remove_empty(inner)
    with suppress(OSError):  # of a folder that holds something
        folder.rmdir()


def _remember(name: str, folder: Path, files: list[str]) -> None:
    path = folder.with_name(folder.name + ".json")
    _write_record(path, {**_read_record(path), name: files})


def _read_record(path: Path) -> dict[str, list[str]]:
    """Files by name of the model; a record that cannot be read counts as none."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): [str(file) for file in files] for name, files in read.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _write_record(path: Path, models: dict[str, list[str]]) -> None:
    with access(path, "write"), cache.replacing(path) as temporary:
        temporary.write_text(json.dumps(models), encoding="utf-8")


def _choose(name: Name, files: list[Remote]) -> list[Remote]:
    """The files that make up the model: a named or only .gguf, or a checkpoint."""
    ggufs = [remote for remote in files if remote.name.endswith(".gguf")]
    if name.file:
        found = [remote for remote in ggufs if remote.name == name.file]
        if not found:
            listed = ", ".join(remote.name for remote in ggufs) or "none"
            raise AccessError(f"{name}: there is no {name.file}; its .gguf files: {listed}")
        return found
    checkpoint = [remote for remote in files if _WANTED.fullmatch(remote.name)]
    # Of a repository that has one file for all weights and shards of them, the shards are not needed.
    if any(remote.name == "model.safetensors" for remote in checkpoint):
        checkpoint = [r for r in checkpoint if r.name == "model.safetensors" or "safetensors" not in r.name]
    if any(remote.name.endswith(".safetensors") for remote in checkpoint):
        return checkpoint
    if len(ggufs) == 1:
        return ggufs
    if ggufs:
        listed = ", ".join(remote.name for remote in ggufs)
        raise UsageError(f"{name}: has several .gguf files, name one as {name}/FILE.gguf: {listed}")
    raise FormatError(f"{name}: has neither .safetensors nor .gguf files")


def _download(hub: _Hub, commit: str, remote: Remote, target: Path, report: Any) -> None:
    """One file through a partial one, which a later run continues."""
    partial = target.with_name(target.name + PARTIAL)
    with access(target, "write"):
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_space(target.parent, remote)
        digest = _continue(hub, commit, remote, partial, report)
    if digest != remote.expected:
        partial.unlink(missing_ok=True)
        raise FormatError(f"{hub.name}: {remote.name} does not have the hash that the hub gives for it")
    with access(target, "write"):
        partial.replace(target)


def _check_space(folder: Path, remote: Remote) -> None:
    free = shutil.disk_usage(folder).free
    if free < remote.size:
        raise AccessError(
            f"{folder}: {remote.name} takes {remote.size / 1e6:.0f} MB, only {free / 1e6:.0f} MB are free"
        )


def _continue(hub: _Hub, commit: str, remote: Remote, partial: Path, report: Any) -> str:
    digest = remote.digest()
    with partial.open("a+b") as file:
        if file.tell() > remote.size:
            file.truncate(0)
        file.seek(0)
        while chunk := file.read(CHUNK):  # what an earlier run left counts
            digest.update(chunk)
        done = file.tell()
        if done < remote.size:
            with hub.open(commit, remote, done) as response:
                if done and response.status != 206:  # the server starts over
                    file.truncate(0)
                    digest, done = remote.digest(), 0
                while chunk := hub.read(response, remote):
                    file.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    report(min(done, remote.size))
    if done != remote.size:
        raise AccessError(
            f"{hub.name}: {remote.name} ended after {done} of {remote.size} bytes; "
            "run the command again to continue"
        )
    found: str = digest.hexdigest()
    return found


class _Hub:
    """The hub's interface; addresses, tokens and errors are huggingface_hub's business."""

    def __init__(self, name: Name) -> None:
        try:
            import huggingface_hub
            from huggingface_hub import errors
        except ImportError as error:
            raise AccessError(f"{name}: needs huggingface_hub: pip install 'krafla[hf]'") from error
        self.lib = huggingface_hub
        self.errors = errors
        self.name = name
        self.endpoint = os.environ.get("HF_ENDPOINT") or None

    def list(self) -> tuple[str, list[Remote]]:
        """The commit that the revision stands for, and its files."""
        errors = self.errors
        try:
            api = self.lib.HfApi(endpoint=self.endpoint)
            info = api.model_info(
                self.name.repository, revision=self.name.revision, files_metadata=True, timeout=_TIMEOUT
            )
        except errors.GatedRepoError as error:
            raise AccessError(
                f"{self.name}: asks for consent: give it on the model's page, then log in with `hf auth login`"
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise AccessError(f"{self.name}: the hub has no such model, or it is private") from error
        except errors.RevisionNotFoundError as error:
            raise AccessError(f"{self.name}: has no revision {self.name.revision}") from error
        except Exception as error:  # whatever its HTTP library raises
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise UnreachableError(f"{self.name}: the hub does not answer: {reason[0]}") from error
        return str(info.sha), [_remote(sibling) for sibling in info.siblings or []]

    def open(self, commit: str, remote: Remote, start: int) -> Any:
        """A response with a file's bytes from `start` on."""
        url = self.lib.hf_hub_url(self.name.repository, remote.name, revision=commit, endpoint=self.endpoint)
        request = urllib.request.Request(url)
        request.add_header("User-Agent", f"krafla/{__version__}")
        if token := self.lib.get_token():
            # For the hub, not for the storage that it sends us to.
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        if start:
            request.add_header("Range", f"bytes={start}-")
        try:
            return urllib.request.urlopen(request, timeout=_TIMEOUT)
        except (urllib.error.URLError, OSError) as error:
            raise self.failed(remote, error) from error

    def read(self, response: IO[bytes], remote: Remote) -> bytes:
        """The next bytes; none at the end, also where the connection was cut."""
        try:
            return response.read(CHUNK)
        except OSError as error:
            raise self.failed(remote, error) from error

    def failed(self, remote: Remote, error: Exception) -> AccessError:
        """One sentence for a failed download."""
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        return AccessError(
            f"{self.name}: cannot download {remote.name}: {reason}; run the command again to continue"
        )


def _remote(sibling: Any) -> Remote:
    sha256 = sibling.lfs.sha256 if sibling.lfs else ""
    return Remote(sibling.rfilename, int(sibling.size or 0), sha256, sibling.blob_id or "")

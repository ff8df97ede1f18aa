"""Pulling from the Hugging Face hub, against a server of our own that speaks its interface."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from krafla.runtime import hub
from krafla.runtime.cli import call
from krafla.runtime.resolve import resolve
from krafla.tools import gen_tokenizer
from krafla.tools.errors import AccessError, FormatError, UsageError
from krafla.tools.mlb import Model
from tests.checkpoints import hf_config, hf_weights, random_weights, safetensors_bytes
from tests.models import header

pytest.importorskip("huggingface_hub", reason="the hf extra is not installed")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "some-org/Some.Model-1"


class Server(ThreadingHTTPServer):
    """The state of a repository, and what was asked of it."""

    files: dict[str, bytes]
    asked: list[tuple[str, str | None]]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.asked = []
        self.cut = 0  # bytes after which the next download breaks off
        self.ranges = True
        self.tamper = b""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.server.asked.append((path, self.headers.get("Range")))
        if path.startswith("/api/models/"):
            self.api(path.removeprefix("/api/models/"))
        elif path.startswith("/storage/"):
            assert "authorization" not in self.headers
            self.send_bytes(path.removeprefix("/storage/"))
        else:
            assert self.headers["authorization"] == "Bearer hf_test"
            name = path.removeprefix(f"/{REPOSITORY}/resolve/{COMMIT}/")
            self.send_response(302)
            self.send_header("Location", f"/storage/{name}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def api(self, path: str) -> None:
        if path == f"{REPOSITORY}/revision/odd":
            self.answer(404, {"error": "Revision Not Found"}, "RevisionNotFound")
        elif path.startswith("some-org/Gated"):
            self.answer(403, {"error": "gated"}, "GatedRepo")
        elif path not in (f"{REPOSITORY}/revision/main", f"{REPOSITORY}/revision/v2"):
            self.answer(404, {"error": "not found"}, "RepoNotFound")
        else:
            siblings = [entry(name, data) for name, data in self.server.files.items()]
            self.answer(200, {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings})

    def answer(self, status: int, value: Any, code: str = "") -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        self.wfile.write(body)

    def send_bytes(self, name: str) -> None:
        data = self.server.files[name]
        if self.server.tamper:
            data = self.server.tamper.ljust(len(data), b"\0")[: len(data)]
        start = 0
        if (wanted := self.headers.get("Range")) and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = len(data)
        if self.server.cut and len(data) > self.server.cut:
            end, self.server.cut = start + self.server.cut, 0
        self.wfile.write(data[start:end])


def entry(name: str, data: bytes) -> dict[str, Any]:
    git = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
    value: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": git}
    if name.endswith((".safetensors", ".gguf")):
        value["lfs"] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 134}
        value["blobId"] = "0" * 40
    return value


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{running.server_address[1]}")
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        monkeypatch.setenv("KRAFLA_CACHE", str(tmp_path / "cache"))
        h = header("llama", vocab=600)
        generated = gen_tokenizer.generate("bytes", 600)
        running.files = {
            ".gitattributes": b"x",
            "README.md": b"readme",
            "config.json": json.dumps(hf_config(h)).encode(),
            "tokenizer.json": json.dumps(generated.json).encode(),
            "model.safetensors": safetensors_bytes(hf_weights(random_weights(h), 16)),
            "onnx/model.onnx": b"large",
        }
        yield running
        running.shutdown()
        thread.join()


def downloads(server: Server) -> list[tuple[str, str | None]]:
    return [(p.removeprefix("/storage/"), r) for p, r in server.asked if p.startswith("/storage/")]


def test_a_checkpoint_is_downloaded_once(server: Server) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = hub.pull(f"hf:{REPOSITORY}", lambda *done: seen.append(done))
    names = ["config.json", "model.safetensors", "tokenizer.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    for name in names:
        assert (folder / name).read_bytes() == server.files[name]
    total = sum(len(server.files[name]) for name in names)
    assert seen[-1][1:] == (total, total) and [at for _, at, _ in seen] == sorted(at for _, at, _ in seen)
    assert "hf:some-org/Some.Model-1" in seen[0][0]
    server.asked.clear()
    assert hub.pull(f"hf:{REPOSITORY}@v2") == folder
    assert downloads(server) == []


def test_the_command_and_its_name(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["pull", f"hf:{REPOSITORY}", "-q"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert Model(path).header.vocab == 600 and path.with_suffix(".mlt").is_file()
    assert resolve(f"hf:{REPOSITORY}").mlb == path


def test_an_interrupted_download_is_continued(server: Server) -> None:
    server.cut = 100_000
    size = len(server.files["model.safetensors"])
    with pytest.raises(AccessError, match=f"model.safetensors ended after 100000 of {size} bytes; run"):
        hub.pull(f"hf:{REPOSITORY}")
    folder = hub.pull(f"hf:{REPOSITORY}")
    assert (folder / "model.safetensors").read_bytes() == server.files["model.safetensors"]
    asked = [entry for entry in downloads(server) if entry[0] == "model.safetensors"]
    assert asked == [("model.safetensors", None), ("model.safetensors", "bytes=100000-")]


def test_a_server_without_ranges_starts_over(server: Server) -> None:
    server.cut, server.ranges = 100_000, False
    with pytest.raises(AccessError):
        hub.pull(f"hf:{REPOSITORY}")
    folder = hub.pull(f"hf:{REPOSITORY}")
    assert (folder / "model.safetensors").read_bytes() == server.files["model.safetensors"]


def test_other_bytes_are_refused(server: Server) -> None:
    server.tamper = b"other"
    with pytest.raises(FormatError, match=r"config.json does not have the hash"):
        hub.pull(f"hf:{REPOSITORY}")
    server.tamper = b""
    server.files = {"model.safetensors": server.files["model.safetensors"]}
    server.tamper = b"other"
    with pytest.raises(FormatError, match=r"model.safetensors does not have the hash"):
        hub.pull(f"hf:{REPOSITORY}")


def test_gguf_files(server: Server) -> None:
    server.files = {"a.Q4_0.gguf": b"GGUF 4", "README.md": b""}
    assert hub.pull(f"hf:{REPOSITORY}").read_bytes() == b"GGUF 4"
    server.files["sub/b.Q8_0.gguf"] = b"GGUF 8"
    with pytest.raises(UsageError, match=r"several .gguf files, .*: a.Q4_0.gguf, sub/b.Q8_0.gguf"):
        hub.pull(f"hf:{REPOSITORY}")
    assert hub.pull(f"hf:{REPOSITORY}/sub/b.Q8_0.gguf").read_bytes() == b"GGUF 8"
    with pytest.raises(AccessError, match=r"there is no c.gguf; its .gguf files: a"):
        hub.pull(f"hf:{REPOSITORY}/c.gguf")


@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        ("hf:some-org/Missing", AccessError, "the hub has no such model, or it is private"),
        (f"hf:{REPOSITORY}@odd", AccessError, "has no revision odd"),
        ("hf:some-org/Gated", AccessError, "asks for consent"),
        ("hf:justname", UsageError, "must be hf:ORG/NAME"),
        ("hf:a/b/c.bin", UsageError, "must be hf:ORG/NAME"),
    ],
)
def test_refusals(server: Server, name: str, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        hub.pull(name)


def test_a_repository_without_a_model(server: Server) -> None:
    server.files = {"README.md": b"x"}
    with pytest.raises(FormatError, match=r"neither .safetensors nor .gguf"):
        hub.pull(f"hf:{REPOSITORY}")


def test_no_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("KRAFLA_CACHE", str(tmp_path))
    with pytest.raises(AccessError, match="the hub does not answer"):
        hub.pull(f"hf:{REPOSITORY}")


def test_shards_are_left_where_there_is_one_file() -> None:
    def remote(name: str) -> hub.Remote:
        return hub.Remote(name, 1, "", "")

    names = [
        "config.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    chosen = hub._choose(hub.Name("a/b"), [remote(name) for name in names])
    assert [file.name for file in chosen] == ["config.json", "model.safetensors"]
    chosen = hub._choose(hub.Name("a/b"), [remote(name) for name in names if name != "model.safetensors"])
    assert len(chosen) == 3


def rows(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    assert call(["list", "--json"]) == 0
    return [(row["name"], row["state"]) for row in json.loads(capsys.readouterr().out)]


def test_models_of_the_hub_on_the_shelf(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"hf:{REPOSITORY}"
    folder = hub.pull(name)
    assert rows(capsys) == [(name, "not converted")]
    resolve(name)
    assert rows(capsys) == [(name, "ready")]
    hub.pull(f"{name}@v2")  # the same commit
    assert rows(capsys) == [(name, "ready"), (f"{name}@v2", "ready")]
    assert call(["rm", "-y", f"{name}@v2"]) == 0  # what another name needs stays
    capsys.readouterr()
    assert (folder / "model.safetensors").is_file()
    assert rows(capsys) == [(name, "ready")]
    assert call(["rm", "-y", name]) == 0
    capsys.readouterr()
    assert rows(capsys) == []
    assert not folder.exists()


def test_files_of_one_repository_are_removed_one_by_one(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.files = {"a.gguf": b"GGUF 4", "sub/b.gguf": b"GGUF 8"}
    paths = [hub.pull(f"hf:{REPOSITORY}/{file}") for file in server.files]
    assert rows(capsys) == [(f"hf:{REPOSITORY}/{file}", "not converted") for file in server.files]
    assert call(["rm", "-y", f"hf:{REPOSITORY}/sub/b.gguf"]) == 0
    assert [path.exists() for path in paths] == [True, False]
    assert call(["rm", "-y", f"hf:{REPOSITORY}/a.gguf"]) == 0
    assert not paths[0].parent.exists()


def test_an_unfinished_download_on_the_shelf(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.cut = 100_000
    with pytest.raises(AccessError):
        hub.pull(f"hf:{REPOSITORY}")
    assert rows(capsys) == [(f"hf:{REPOSITORY}", "unfinished")]
    assert call(["rm", "-y", f"hf:{REPOSITORY}"]) == 0
    capsys.readouterr()
    assert rows(capsys) == []


def test_without_the_hub_an_earlier_download_serves(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hub.pull(f"hf:{REPOSITORY}")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    told: list[str] = []
    assert hub.pull(f"hf:{REPOSITORY}", lambda what, *_: told.append(what)) == folder
    assert told == [f"hf:{REPOSITORY}: the hub does not answer; the copy of an earlier download is taken"]
    with pytest.raises(AccessError, match="the hub does not answer"):
        hub.pull(f"hf:{REPOSITORY}@v2")

"""`krafla list`, `show` and `rm`: what is in the cache, what it is, and that nothing else is ever removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from krafla.runtime import cache, cli, describe, pull, resolve, shelf
from krafla.runtime.model import Model
from krafla.runtime.text import megabytes
from krafla.tools import convert as tool
from krafla.tools import gen_tokenizer, mlb
from krafla.tools.errors import AccessError
from krafla.tools.gen_gguf import SHAPES, write_gguf
from tests.checkpoints import hf_config, hf_weights, random_weights, safetensors_bytes
from tests.models import LAYER_FLAGS, MODELS, header, model
from tests.toys import toy

Capture = pytest.CaptureFixture[str]
#: By model of tests/models.py, where it is not Llama.
FAMILIES = {
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "llama3": "Llama 3",
    "smollm3": "SmolLM3",
    "gemma2": "Gemma 2",
    "gemma3": "Gemma 3",
    "qwen35": "Qwen3.5",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for models; libraries come from the tests' cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "lib").symlink_to(cache.room("lib"))
    monkeypatch.setenv("KRAFLA_CACHE", str(folder))
    return folder


def checkpoint(folder: Path) -> Path:
    """A small Hugging Face folder."""
    folder.mkdir()
    h = header("llama", vocab=600)
    (folder / "config.json").write_text(json.dumps(hf_config(h)))
    (folder / "tokenizer.json").write_text(json.dumps(gen_tokenizer.generate("bytes", 600).json))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(hf_weights(random_weights(h), 16)))
    return folder


def call(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = cli.call(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def listed(capsys: Capture) -> list[dict[str, Any]]:
    code, out, _ = call(capsys, "list", "--json")
    assert code == 0
    rows: list[dict[str, Any]] = json.loads(out)
    return rows


def test_an_empty_shelf(home: Path, capsys: Capture) -> None:
    assert listed(capsys) == []
    code, out, err = call(capsys, "list")
    assert (code, out) == (0, "")
    assert "no models yet" in err
    assert shelf.names() == [pull.DEFAULT]


def test_own_files_are_listed_by_path_and_never_removed(home: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = checkpoint(tmp_path / "mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with Model.load(folder) as opened:
        assert opened.config.vocab == 600
    [row] = listed(capsys)
    assert (row["name"], row["state"], row["download_bytes"]) == (str(folder), "ready", 0)
    assert row["conversion_bytes"] > 100_000
    code, out, _ = call(capsys, "list")
    assert code == 0
    assert out.splitlines()[1].split()[0] == str(folder)
    # Once converted, it is not converted again, whichever command names it.
    mlb_path = next(Path(row["paths"][0]).glob("*.mlb"))
    written = mlb_path.stat().st_mtime_ns
    for arguments in (
        ["show", str(folder)],
        ["tok", "encode", "x", "-m", str(folder)],
        ["run", "x", "-n", "1", "-m", str(folder)],
    ):
        assert call(capsys, *arguments)[0] == 0
    assert mlb_path.stat().st_mtime_ns == written
    size = megabytes(row["conversion_bytes"])
    assert call(capsys, "rm", "--yes", str(folder)) == (0, f"removed {folder} ({size})\n", "")
    assert listed(capsys) == []
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    code, out, err = call(capsys, "rm", "--yes", str(folder))
    assert (code, out) == (2, "")
    assert "is your own, and the cache has no conversion of it; nothing is removed" in err


@pytest.fixture
def no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random GGUF files have none."""
    convert = tool.convert

    def without(source: Path, target: Path, progress: Any) -> mlb.Header:
        return convert(source, target, tool.Options(tokenizer=False), progress)

    monkeypatch.setattr(tool, "convert", without)


def test_a_conversion_that_fails_leaves_nothing(home: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, SHAPES["tiny"], "q8_0")
    code, _, err = call(capsys, "show", "-q", str(path))
    assert code == 5
    assert "there is no vocabulary" in err
    assert listed(capsys) == []


@pytest.mark.usefixtures("no_tokenizer")
def test_a_gguf_file_and_its_changes(
    home: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, SHAPES["tiny"], "q8_0")
    first = resolve.resolve(path).mlb
    assert resolve.resolve(path).mlb == first
    write_gguf(path, SHAPES["tiny"], "q4_0")
    assert [row["state"] for row in listed(capsys)] == ["outdated"]
    second = resolve.resolve(path).mlb
    assert second != first
    [row] = listed(capsys)
    assert (row["state"], len(row["paths"])) == ("ready", 2)
    monkeypatch.chdir(tmp_path)
    code, out, _ = call(capsys, "rm", "--yes", "--json", "tiny.gguf")
    assert code == 0
    assert json.loads(out) == [{"name": str(path), "bytes": row["conversion_bytes"]}]
    assert path.is_file()
    assert not first.exists()
    assert not second.exists()


def known(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A known model that has been pulled."""
    made = pull.Known("Toy", "toy", "1", "", 0, "toy.gguf", 0, "MIT", "A toy")
    monkeypatch.setattr(pull, "KNOWN", (made,))
    (home / "pulled").mkdir()
    path = home / "pulled" / made.gguf
    write_gguf(path, SHAPES["tiny"], "q8_0")
    return path


@pytest.mark.usefixtures("no_tokenizer")
def test_downloads(home: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = known(home, tmp_path, monkeypatch)
    [row] = listed(capsys)
    assert (row["name"], row["state"], row["download_bytes"]) == ("Toy", "not converted", path.stat().st_size)
    resolve.resolve("toy")
    [row] = listed(capsys)
    assert (row["state"], len(row["paths"])) == ("ready", 2)
    assert shelf.names() == ["Toy"]
    leftover = home / "pulled" / "toy-1"
    leftover.mkdir()
    (leftover / "half.whl").write_bytes(b"x" * 5000)
    assert [row["state"] for row in listed(capsys)] == ["ready", "unfinished"]
    assert call(capsys, "rm", "--yes", "TOY")[0] == 0
    assert listed(capsys) == []
    assert not path.exists()
    assert not leftover.exists()


def test_rm_asks(home: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    path = known(home, tmp_path, monkeypatch)
    code, out, err = call(capsys, "rm", "Toy")
    assert (code, out) == (2, "")
    assert "--yes is missing: there is no terminal to ask on" in err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text))
    assert call(capsys, "rm", "Toy") == (0, "", "nothing is removed\n")
    assert asked[0].startswith("Remove Toy (")
    assert path.exists()
    monkeypatch.setattr("click.confirm", lambda text, **_: True)
    assert call(capsys, "rm", "Toy")[0] == 0
    assert not path.exists()


def test_rm_of_what_is_not_there(home: Path, capsys: Capture, tmp_path: Path) -> None:
    assert call(capsys, "rm", "-y", "nothing")[0] == 4
    own = toy(tmp_path)
    code, _, err = call(capsys, "rm", "-y", str(own))
    assert code == 2
    assert "is your own" in err
    assert own.exists()


@pytest.mark.skipif(not hasattr(Path, "symlink_to"), reason="symbolic links")
def test_a_link_out_of_the_cache_is_not_followed(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.mlb").write_bytes(b"x")
    (home / "models").mkdir()
    (home / "models" / "link").symlink_to(outside)
    [entry] = shelf.find("link")
    with pytest.raises(AccessError, match="lies outside the cache; it is left alone"):
        shelf.remove(entry)
    assert (outside / "precious.mlb").exists()


def test_a_damaged_record_of_origin(home: Path, capsys: Capture) -> None:
    folder = home / "models" / "odd-1"
    folder.mkdir(parents=True)
    (folder / resolve.ORIGIN).write_text("[")
    assert [(row["name"], row["state"]) for row in listed(capsys)] == [("odd-1", "outdated")]
    assert call(capsys, "rm", "-y", "odd-1")[0] == 0
    assert not folder.exists()


@pytest.mark.parametrize("name", MODELS)
def test_families_by_their_headers(name: str) -> None:
    assert MODELS.keys() >= FAMILIES.keys()
    if name in FAMILIES or (not LAYER_FLAGS.get(name) and name in ("llama", "shared", "wide", "yarn")):
        opened = mlb.Model(model(name))
        assert describe.family(opened.header, opened.layer_flags) == FAMILIES.get(name, "Llama")


def test_show(capsys: Capture, tmp_path: Path) -> None:
    path = toy(tmp_path, template=True)
    code, out, _ = call(capsys, "show", "--json", str(path))
    assert code == 0
    facts = json.loads(out)
    opened = mlb.Model(path)
    assert facts["header"]["dim"] == opened.header.dim
    assert facts["file_bytes"] == path.stat().st_size
    weights = sum(t.rows * t.cols for t in opened.tensors.values())
    assert facts["parameters"] == weights == sum(t["count"] * t["rows"] * t["cols"] for t in facts["tensors"])
    # All tensors, without their padding, are nearly the file.
    size = sum(tensor["bytes"] for tensor in facts["tensors"])
    assert path.stat().st_size - 64 * 2 * len(opened.tensors) - 256 <= size < path.stat().st_size
    for row in facts["memory"]:
        with Model.load(path, ctx=row["context"], kv=row["kv"]) as loaded:
            assert loaded.config.kv_bytes == row["kv_bytes"]
            assert loaded.config.peak_bytes == row["peak_bytes"]
    assert [row["kv"] for row in facts["memory"]] == ["f32", "f16", "q8"]
    code, out, _ = call(capsys, "show", str(path))
    assert code == 0
    for words in ("family     Llama, ", "layers.*.wq", "2 layers, width 64", "toy.jinja", "    320 "):
        assert words in out
    assert call(capsys, "show", "-q", str(tmp_path / "absent.mlb"))[0] == 4


def test_counts_of_weights() -> None:
    assert [describe.count(n) for n in (7, 1500, 134_515_008, 8_030_000_000)] == [
        "7",
        "1.5 k",
        "134.5 M",
        "8.03 G",
    ]

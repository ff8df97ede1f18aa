"""Every command of the user guide is run as it is written there.

A box of the page (```sh) is run by bash, in one folder, from top to bottom. A comment above a box changes that:
`<!-- not run: REASON -->`, or `<!-- until the next heading -->` for a server, which is started, waited for, and
interrupted at the next heading.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from krafla.runtime import cache, cli, document, pull
from krafla.runtime.paths import ROOT
from krafla.runtime.resolve import pulled
from tests.checkpoints import gguf_weights, random_weights, write_gguf
from tests.models import header
from tests.tokenizer_tools import smollm2_values
from tests.toys import TEMPLATE

GUIDE = ROOT / "docs" / "user-guide.md"
SERVER = "until the next heading"
NOT_RUN = "not run: "
PROGRAMS = {
    "krafla": "-m krafla.runtime.cli",
    "krafla-gen": "-m krafla.codegen.cli",
    "python": "",
}


@dataclass(frozen=True)
class Box:
    """Commands of the page, the comment above them, and the heading they stand below."""

    line: int
    heading: str
    comment: str
    script: str


def boxes(page: Path) -> list[Box]:
    found, heading, comment = [], "", ""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if line.startswith("```"):
            script = []
            for _, inner in lines:
                if inner.startswith("```"):
                    break
                script.append(inner)
            if line == "```sh":
                found.append(Box(number, heading, comment, "\n".join(script)))
        elif line.startswith("#"):
            heading = line.lstrip("# ")
        comment = line.removeprefix("<!-- ").removesuffix(" -->") if line.startswith("<!-- ") else ""
    return found


BOXES = boxes(GUIDE)


def commands(box: Box) -> Iterator[str]:
    """The `krafla` commands of a box, as far as they are words."""
    for line in re.split(r"[|\n]", box.script.replace("\\\n", " ")):
        words = [word for word in line.split() if not word.startswith("-")]
        if words[:1] == ["krafla"] and len(words) > 1:
            yield " ".join(words[:3] if words[1] == "tok" else words[:2])


def test_every_command_is_shown_and_run() -> None:
    shown = {name for box in BOXES for name in commands(box)}
    ran = {name for box in BOXES if not box.comment.startswith(NOT_RUN) for name in commands(box)}
    assert shown == ran == {name for name, _ in document.commands()}
    headings = {box.heading for box in BOXES}
    assert {f"`krafla {name}`" for name in cli.COMMANDS} <= headings


def test_what_is_not_run() -> None:
    """Nothing but what cannot be: an installation, a large download, minutes of tuning."""
    left_out = [box.script.splitlines()[-1] for box in BOXES if box.comment.startswith(NOT_RUN)]
    assert left_out == [
        ".venv/bin/pip install .",
        "krafla pull hf:Qwen/Qwen3-0.6B",
        "krafla bench --tune",
    ]
    assert {box.comment for box in BOXES if not box.comment.startswith(NOT_RUN)} <= {"", SERVER}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the page says is there: a model, two texts, build.py."""
    place = tmp_path / "place"
    place.mkdir()
    h = header("llama", vocab=49152, max_seq=2048)
    extra = [(f"tokenizer.{key}", value) for key, value in smollm2_values().items()]
    extra.append(("tokenizer.chat_template", TEMPLATE))
    write_gguf(place / "model.gguf", h, gguf_weights(random_weights(h)), extra=extra)
    (place / "question.txt").write_text("What is a leap year?\n", encoding="utf-8")
    (place / "book.txt").write_text((ROOT / "runtime" / "eval_text.txt").read_text(), encoding="utf-8")
    (place / "build.py").symlink_to(ROOT / "build.py")
    return place


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The programs on PATH; a cache that shares what others have made, but nothing that the page removes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in PROGRAMS.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    conversion = pulled(pull.DEFAULT).mlb.parent
    shared, own = cache.root(), tmp_path / "cache"
    own.mkdir()
    for room in ("lib", "build", "zig", "pulled"):
        (own / room).symlink_to(cache.room(room))
    shutil.copytree(conversion, own / "models" / conversion.name, copy_function=link_or_copy)
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KRAFLA_CACHE": str(own),
        "KRAFLA_DATA": str(tmp_path / "data"),
        "HOME": str(tmp_path),
        "ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(shared / "zig")),
    }


def start(box: Box, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", box.script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )


def run(box: Box, **options: object) -> str:
    process = start(box, **options)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, f"{GUIDE.name}:{box.line}:\n{box.script}\n{output}"
    return str(output)


def wait_for(box: Box, process: subprocess.Popen[str]) -> None:
    """Until the server is ready."""
    port = re.search(r"--port (\d+)", box.script)
    assert port, box.script
    patience = time.monotonic() + 300  # on a busy machine
    while time.monotonic() < patience:
        assert process.poll() is None, process.communicate()[0]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the server never got ready")


def stop(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), output


@pytest.mark.slow
def test_every_command_runs(folder: Path, environment: dict[str, str]) -> None:
    served = {box.heading for box in BOXES if box.comment == SERVER}
    times: list[tuple[float, str]] = []
    for box in BOXES:
        if box.heading not in served and not box.comment.startswith(NOT_RUN):
            started = time.monotonic()
            run(box, cwd=folder, env=environment)
            times.append((time.monotonic() - started, box.script))
    print("\n".join(f"{seconds:6.1f} s  {script}" for seconds, script in sorted(times, reverse=True)[:12]))
    assert_results(folder)


@pytest.mark.slow
def test_every_command_of_a_server_runs(folder: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("fastapi", reason="the serve extra is not installed")
    for box in BOXES:
        if box.comment == SERVER:
            server = start(box, cwd=folder, env=environment)
            try:
                wait_for(box, server)
                for other in BOXES:
                    if other.heading == box.heading and other is not box:
                        assert "choices" in run(other, cwd=folder, env=environment)
                stop(server)
            finally:
                if server.poll() is None:
                    os.killpg(server.pid, signal.SIGKILL)
                    server.communicate()


def assert_results(folder: Path) -> None:
    """What the commands left behind is what the page says."""
    answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    assert answer["tokens"] == 16
    before = json.loads((folder / "before.json").read_text(encoding="utf-8"))
    assert {row["kind"] for row in before["rows"]} == {"prefill", "decode"}
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["isas"]
    perplexity = json.loads((folder / "perplexity.json").read_text(encoding="utf-8"))
    assert 1 < perplexity["figures"]["perplexity"]["value"] < 100
    assert (folder / "model-q4.mlb").stat().st_size < (folder / "model-q8.mlb").stat().st_size
    assert (folder / "model.imatrix").stat().st_size > 0
    for drawing in ("speed.svg", "divergence.svg"):
        assert (folder / drawing).read_text(encoding="utf-8").startswith("<svg")
    for script in ("krafla.bash", "_krafla", "krafla.fish"):
        assert "krafla" in (folder / script).read_text(encoding="utf-8").lower()


@pytest.mark.slow
def test_the_engine_builds_with_any_compiler(tmp_path: Path, environment: dict[str, str]) -> None:
    """The box of the page on cross builds, with a program that uses the engine; zig stands in for cc."""
    [box] = [box for box in boxes(ROOT / "docs" / "cross-builds.md") if "isa_check.o" in box.script]
    place = tmp_path / "checkout"
    place.mkdir()
    for name in ("runtime", "generated"):
        (place / name).symlink_to(ROOT / name)
    compiler = Path(environment["PATH"].partition(os.pathsep)[0]) / "cc"
    target = "-target x86_64-linux-musl -fno-sanitize=undefined"
    # The optimizer finds no undefined names; the linker does.
    compiler.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc {target} "$@" -O0\n', encoding="utf-8"
    )
    compiler.chmod(0o755)
    (place / "program.c").write_text(
        '#include "krafla.h"\nint main(void) { const char *m; return ml_isa_check(&m) + !ml_engine_open; }\n',
        encoding="utf-8",
    )
    run(box, cwd=place, env=environment)
    assert (place / "a.out").stat().st_size > 0

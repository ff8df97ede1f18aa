"""docs/adding-an-isa.md: its steps work as they stand there, and it tells the whole vocabulary."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from krafla.codegen.isa import FACETS, Isa
from krafla.codegen.lanes import F32
from krafla.codegen.ops import OPS
from krafla.runtime.verify import Machine, execute

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "adding-an-isa.md").read_text(encoding="utf-8")
ROOMS = ("codegen", "generated", "isa_specs", "krafla", "runtime", "templates", "tools")


def fragments(language: str) -> list[str]:
    """The page's code in a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_every_word_is_explained() -> None:
    told = {word for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for word in row.split("`")[1::2]}
    assert {field.name for field in fields(F32)} <= told
    prose = set(re.findall(r"`(\w+)`", PAGE))
    assert {field.name for field in fields(Isa)} - {"name"} <= prose


@pytest.mark.parametrize("facet", FACETS)
def test_the_table_of_facets_is_that_of_the_ops(facet: str) -> None:
    row = re.search(rf"^\| `{facet}` \|[^|]*\|([^|]*)\|", PAGE, re.MULTILINE)
    assert row
    patterns = re.findall(r"[a-z]\w*(?:\*\w*)*", row.group(1).replace("\\", ""))
    told = {op.name for op in OPS for pattern in patterns if fnmatch.fnmatch(op.name, pattern)}
    assert told == {op.name for op in OPS if facet in op.needs | op.prefers}


@pytest.mark.qemu
def test_a_machine_in_twenty_lines(tmp_path: Path) -> None:
    """The page's first example, followed in a copy of the repository, generated, built, and run."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("build.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    descriptor = next(text for text in fragments("python") if 'name="ssse3"' in text)
    (tmp_path / "isa_specs" / "ssse3.py").write_text(descriptor, encoding="utf-8")
    generate, build, run = next(text for text in fragments("sh") if "ssse3" in text).splitlines()

    def follow(line: str) -> str:
        words = shlex.split(line)
        command = ["-m", "krafla.codegen.cli"] if words[0] == "krafla-gen" else [words[1]]
        rest = words[1:] if words[0] == "krafla-gen" else words[2:]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, *command, *rest],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    follow(generate)
    kernels = {path.stem for path in (tmp_path / "generated" / "ssse3").glob("*.c")}
    assert len(kernels) == 8
    assert kernels == {
        op.name for op in OPS if op.needs & {"rowdot", "pack", "tile"} and "f16" not in op.name
    } | {"dot_q8"}
    follow("krafla-gen --check")
    assert "ml_k_add_sse2" in follow("krafla-gen --explain ssse3")
    follow(build)
    machine = Machine("x86_64-linux", "sse41", ("qemu-x86_64", "-cpu", "core2duo"))
    if missing := machine.available():
        pytest.skip(f"this machine lacks {missing}")
    done = execute(machine, tmp_path / run)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "ml_k_matvec_q8_pk_ssse3" in done.stdout and "bit for bit" in done.stdout

"""Builds for other machines, run under emulators: kernels, logits, the CPU check, memory of 32-bit targets."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from krafla import Model
from krafla.runtime import cmd_build, crossbuild, verify
from krafla.runtime.targets import PLATFORMS, platform, variants
from krafla.runtime.verify import MACHINES, REFUSALS, TOKENS, Machine, Refusal, Subject
from tests import cross, engines
from tests.toys import toy

pytestmark = pytest.mark.qemu
PAGE = (verify.ROOT / "docs" / "verified.md").read_text(encoding="utf-8")
#: `python -m krafla.runtime.verify` runs all machines; tests take one of each kind.
EMULATED = [m for m in MACHINES if m.emulator and (m.target, m.isa) in cross.QUICK]


def title(machine: Machine) -> str:
    return f"{machine.target}-{machine.isa}-{machine.title}"


def needed(machine: Machine) -> None:
    if missing := machine.available():
        pytest.skip(f"this machine lacks {missing}")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return verify.random_models(tmp_path_factory.mktemp("verify"))


@pytest.fixture(scope="module", autouse=True)
def everything(request: pytest.FixtureRequest) -> None:
    """All that the selected tests of this module run, built together."""
    items = [item for item in request.session.items if item.module is request.module]
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    asked = [p["refusal"].machine if "refusal" in p else p.get("machine") for p in params]
    cross.prefetch([m for m in asked if isinstance(m, Machine) and not m.available()])


def fnv(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


@pytest.fixture(scope="module")
def unfused(models: Sequence[Subject]) -> tuple[str, ...]:
    """The hashes of class U, from the engine inside this process."""
    hashes = []
    for model in models:
        with engines.Engine(model.path, "scalar") as engine:
            hashes.append(fnv(engine.logits(TOKENS).tobytes()))
    return tuple(hashes)


@pytest.fixture(scope="module")
def fused(models: Sequence[Subject]) -> tuple[str, ...]:
    """The hashes of class F, from a machine without anything special: NEON on a Cortex-A53."""
    machine = next(m for m in EMULATED if (m.target, m.isa) == ("aarch64-linux", "neon"))
    needed(machine)
    return hashes_of(machine, models)


def hashes_of(machine: Machine, models: Sequence[Subject]) -> tuple[str, ...]:
    cross.built(machine.target, machine.isa)
    return verify.run(machine, cross.folder(), models).hashes


@pytest.mark.parametrize("machine", EMULATED, ids=title)
def test_kernels(machine: Machine) -> None:
    needed(machine)
    done = verify.execute(machine, cross.program(machine.target, machine.isa, "test_kernels"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"# {machine.isa}, class {'F' if machine.variant.fused else 'U'}")
    bound = dict(line.split() for line in lines[1 : 1 + len(machine.variant.owners())])
    assert bound == {op: f"ml_k_{op}_{owner.name}" for op, owner in machine.variant.owners().items()}
    assert "bit for bit" in lines[-1] and "FAIL" not in done.stdout


@pytest.mark.parametrize("machine", EMULATED, ids=title)
def test_logits(
    machine: Machine, models: Sequence[Subject], fused: tuple[str, ...], unfused: tuple[str, ...]
) -> None:
    needed(machine)
    assert fused != unfused
    assert hashes_of(machine, models) == (fused if machine.variant.fused else unfused)


def test_the_table_of_the_docs_is_of_this_code(fused: tuple[str, ...], unfused: tuple[str, ...]) -> None:
    """Every row that verify.py knows, all kernels equal, one hash per class and model: the ones of today."""
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "`" in line]
    told = {(row[0].removeprefix("| "), row[1], row[3]): row for row in rows}
    assert set(told) == {(m.target, m.isa, m.title) for m in MACHINES}
    for machine in MACHINES:
        row = told[machine.target, machine.isa, machine.title]
        assert row[4] == "equal"
        hashes = tuple(re.findall(r"`([0-9a-f]{16})`", " ".join(row)))
        assert hashes[:2] == (fused if machine.variant.fused else unfused), row
        assert len(hashes) == 4, row
    assert len({tuple(row[7:9]) for row in rows}) == 2
    assert all(f"{r.machine.title} | {r.missing} |" in PAGE for r in REFUSALS)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["sse2", "avx2"])
def test_smollm2_in_the_table(isa: str, tmp_path: Path) -> None:
    """The real model's hash, natively; downloads it (93 MB) unless the test cache has it."""
    if isa not in engines.usable_isas():
        pytest.skip(f"this CPU lacks {isa}")
    model = verify.smollm2(tmp_path, "q8_0")
    with engines.Engine(model.path, isa, context=128) as engine:
        found = fnv(engine.logits(model.tokens).tobytes())
    assert f"`{found}`" in next(line for line in PAGE.splitlines() if f"| x86_64-linux | {isa} |" in line)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: title(refusal.machine))
@pytest.mark.parametrize("name", cross.PRODUCTS)
def test_guard(refusal: Refusal, name: str) -> None:
    """On a CPU without the ISA: exit code 3 and the feature's name; no signal."""
    machine = refusal.machine
    needed(machine)
    cross.program(machine.target, machine.isa, name)
    assert not verify.refused(refusal, cross.folder(), name)


#: Starts a program that gets no permission for tile registers: the system call that asks for it fails.
WITHOUT_TILES = """
import ctypes, os, struct, sys
ARCH_PRCTL, REQUEST, ALLOW, REFUSE = 158, 0x1023, 0x7FFF0000, 0x00050001
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, ARCH_PRCTL), (LOAD, 0, 0, 16), (EQUAL, 0, 1, REQUEST),
         (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
libc = ctypes.CDLL(None, use_errno=True)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
assert libc.prctl(SECCOMP, FILTER, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_tiles_refused_by_the_system() -> None:
    """A CPU with AMX whose system does not let this process use it: the guard names the tiles, and nothing dies."""
    machine = Machine("x86_64-linux", "amx_int8")
    if missing := machine.available():
        pytest.skip(f"this CPU lacks {missing}")
    path = cross.program(machine.target, machine.isa, "ml_run")
    assert verify.execute(machine, path, "--help").returncode == 0
    command = [sys.executable, "-c", WITHOUT_TILES, str(path), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, ""), done
    assert "this CPU lacks AMX tiles, which the amx_int8 build needs" in done.stderr


@pytest.mark.parametrize(("target", "emulator"), [("arm-linux", "qemu-arm"), ("x86-linux", "qemu-i386")])
def test_a_model_beyond_the_address_space(target: str, emulator: str, tmp_path: Path) -> None:
    machine = Machine(target, "neon" if target == "arm-linux" else "sse2", (emulator,))
    needed(machine)
    path = tmp_path / "large.mlb"
    path.write_bytes(b"MLB1" + struct.pack("<I", 1))
    with path.open("r+b") as file:
        file.truncate(5 << 30)
    done = verify.execute(machine, cross.program(target, machine.isa, "ml_run"), "-m", str(path), "hello")
    assert done.returncode == 7, done
    assert "large.mlb: does not fit into the address space" in done.stderr


def test_a_large_file_in_webassembly(tmp_path: Path) -> None:
    """wasmtime refuses to read more than 128 MiB at once: the file is read in pieces, and only its content is wrong."""
    machine = next(m for m in EMULATED if m.target == "wasm32-wasi")
    needed(machine)
    path = tmp_path / "large.mlb"
    path.write_bytes(b"MLB1" + struct.pack("<I", 9))
    with path.open("r+b") as file:
        file.truncate(150 << 20)
    done = verify.execute(
        machine, cross.program(machine.target, machine.isa, "ml_run"), "-m", str(path), "hello"
    )
    assert done.returncode == 5, done
    assert "version is 9" in done.stderr


def test_windows_speaks_utf8(tmp_path: Path) -> None:
    """Names of files and prompts beyond ASCII; the text is that of the engine here, line ends included."""
    machine = Machine("x86_64-windows", "sse2", ("wine",))
    needed(machine)
    folder = tmp_path / "mod\u00e8le \u4f60"
    folder.mkdir()
    model = toy(folder)
    prompt = "\u00e9\u4f60 a\nb"
    command = cross.program(machine.target, machine.isa, "ml_run")
    done = verify.execute(machine, command, "-m", str(model), "-n", "30", "-q", prompt)
    with Model.load(model, "sse2", threads=1) as loaded:
        assert done.stdout == "".join(loaded.generate(prompt, max_tokens=30)) + "\n", done.stderr
    missing = verify.execute(machine, command, "-m", str(folder / "\u00fc.mlb"), prompt)
    assert missing.returncode == 4 and "\u00fc.mlb: cannot open it" in missing.stderr


def test_scalar_module_has_no_simd() -> None:
    """A runtime without SIMD loads it, and refuses the other one: that is WebAssembly's own leak check."""
    wasmtime = pytest.importorskip("wasmtime", reason="this machine lacks wasmtime")
    config = wasmtime.Config()
    config.wasm_relaxed_simd = False
    config.wasm_simd = False
    without = wasmtime.Engine(config)
    for isa, loads in (("scalar", True), ("wasm_simd128", False)):
        data = cross.program("wasm32-wasi", isa, "ml_run").read_bytes()
        try:
            wasmtime.Module.validate(without, data)
            assert loads, isa
        except wasmtime.WasmtimeError:
            assert not loads, isa


# --- build.py ---------------------------------------------------------------------------------------------


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cmd_build.call(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PLATFORMS)
    assert {line.split()[0]: line.split()[1:] for line in lines} == {
        name: list(variants(on)) for name, on in PLATFORMS.items()
    }
    assert "sve" in lines[2] and "sve" not in lines[6]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--target", "arm-linux", "--isa", "avx2"],
            "--target arm-linux --isa avx2: impossible, arm-linux has",
        ),
        (["--target", "aarch64-macos", "--isa", "sve"], "impossible, aarch64-macos has scalar, neon"),
        (["--target", "mips-linux"], "--target mips-linux: there is no such target"),
        (["--target", "arm-linux", "--isa", "mmx"], "--isa mmx: there is no such ISA"),
        ([], "--target is missing"),
        (["--target", "wasm32-wasi", "--model", "x"], "executables of wasm32-wasi cannot carry other files"),
        (["--target", "arm-linux", "--threads", "2"], "'2' is not one of"),
    ],
)
def test_refusals(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cmd_build.call(arguments) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_manifest_and_second_run() -> None:
    """Hashes, flags and zig's version; nothing is made again when nothing has changed."""
    build = cross.built("aarch64-linux", "neon")
    folder = cross.folder() / "aarch64-linux" / "neon"
    text = (folder / "manifest.json").read_text()
    facts = json.loads(text)
    assert facts["class"] == "F" and facts["mcpu"] == "generic" and facts["zig"] == crossbuild.zig.version()
    assert set(facts["files"]) == {"test_kernels", "ml_run"}
    for name, entry in facts["files"].items():
        data = (folder / name).read_bytes()
        assert entry == {"bytes": len(data), "sha256": crossbuild.hashlib.sha256(data).hexdigest()}
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    crossbuild.run([build])
    crossbuild.deliver(build, cross.folder())
    assert before == {path: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_same_inputs_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cache folder, the same files."""
    first = cross.program("aarch64-linux", "neon", "ml_run").read_bytes()
    kept = os.environ.get("ZIG_GLOBAL_CACHE_DIR") or str(crossbuild.folders.room("zig"))
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", kept)  # with the C libraries
    monkeypatch.setenv("KRAFLA_CACHE", str(tmp_path))
    crossbuild._store.cache_clear()
    try:
        build = crossbuild.plan(
            variants(platform("aarch64-linux"))["neon"], crossbuild.Settings(products=("ml_run",))
        )
        crossbuild.run([build])
        assert build.links[0].path.is_relative_to(tmp_path)
        assert build.links[0].path.read_bytes() == first
    finally:
        crossbuild._store.cache_clear()

"""Builds the library and the native programs for any target, on any machine: what `build.py` does.

Objects are compiled for the ISA's CPU and linked at the target's baseline, because the first link for a (target,
CPU) pair makes zig build a C library. A kernel is compiled once per target, for the ISA that owns it, and
what does not depend on the ISA once per target at the baseline. Objects and linked files are kept in the
cache under a hash of everything they are made from, so the same inputs give the same files, and soon.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from krafla.codegen.ops import OPS
from krafla.runtime import cache as folders
from krafla.runtime import progress, zig
from krafla.runtime.paths import CSRC, GENERATED
from krafla.runtime.precompile import Compilation, Headers
from krafla.runtime.targets import Platform, Variant
from krafla.tools.errors import access

PROGRAMS = ("ml_run", "ml_bench", "test_kernels")
LIBRARY = "library"
PRODUCTS = (LIBRARY, *PROGRAMS)
BASELINE = "baseline"
#: Run before the CPU is known to have the ISA.
GUARDS = ("core/isa_check.c", "app/main_guard.c")
_FLAGS = (
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-sanitize=undefined",
    "-fvisibility=hidden",
)
#: The scalar twins that tests compare with stay what the C says, lane by lane.
_TWIN_FLAGS = ("-fno-vectorize", "-fno-slp-vectorize")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Settings:
    """What may be chosen besides target and ISA."""

    threads: str = "pthread"  # or "1"
    asm: bool = False
    debug: bool = False
    products: tuple[str, ...] = PRODUCTS

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags for every file."""
        mode = ("-O1", "-g", f"-ffile-prefix-map={CSRC.parent.parent}=.") if self.debug else ("-O3", "-g0")
        return (*_FLAGS, *mode, *(("-DML_THREADS=1",) if self.threads == "1" else ()))


@dataclass(frozen=True)
class Object:
    """One compilation."""

    source: Path
    triple: str
    mcpu: str
    flags: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hash of all that the object file follows from."""
        facts = [
            self.source.name,
            self.triple,
            self.mcpu,
            self.flags,
            zig.version(),
            _closure_digest(self.source),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    @property
    def path(self) -> Path:
        """Where the cache keeps it."""
        return _store() / f"{self.digest}.o"

    @property
    def compilation(self) -> Compilation:
        """What the compiler is told."""
        includes = (f"-I{folder}" for folder in (GENERATED, CSRC))
        return Compilation(
            self.source, ("-target", self.triple, f"-mcpu={self.mcpu}", *self.flags, *includes)
        )

    def make(self, headers: Headers | None = None) -> None:
        """Compile, unless it is there."""
        if self.path.is_file():
            return
        one = self.compilation
        shared = headers.flags(one) if headers else ()
        with folders.replacing(self.path) as temporary:
            zig.run(["cc", *one.arguments, *shared, "-c", str(self.source), "-o", str(temporary)])


@dataclass(frozen=True)
class Link:
    """One linked file of a variant."""

    name: str  # of the file
    triple: str
    mcpu: str
    objects: tuple[Object, ...]
    flags: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hash of all that the file follows from."""
        facts = [
            self.name,
            self.triple,
            self.mcpu,
            [o.digest for o in self.objects],
            self.flags,
            zig.version(),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    @property
    def path(self) -> Path:
        """Where the cache keeps it."""
        return _store() / f"{self.digest}.{self.name}"

    def make(self) -> None:
        """Link, unless it is there."""
        if self.path.is_file():
            return
        with tempfile.TemporaryDirectory(dir=_store()) as scratch:
            made = Path(scratch) / self.name
            # The objects under the names of their sources: paths of the cache must not reach the file.
            inputs = [shutil.copy(o.path, Path(scratch) / f"{i}.o") for i, o in enumerate(self.objects)]
            arguments = ["cc", "-target", self.triple, f"-mcpu={self.mcpu}", *self.flags]
            zig.run([*arguments, *(Path(path).name for path in inputs), "-o", self.name], cwd=Path(scratch))
            with folders.replacing(self.path) as temporary:
                made.replace(temporary)


@dataclass
class Build:
    """One variant: what is linked, and where the files go."""

    variant: Variant
    settings: Settings
    links: tuple[Link, ...]
    overrides: tuple[str, ...] = field(default=())


# --- Plans ------------------------------------------------------------------------------------------------


def plan(variant: Variant, settings: Settings) -> Build:
    """Everything that building a variant takes."""
    kernels, overrides = _kernels(variant, settings)
    links = [_link(variant, settings, product, kernels) for product in settings.products]
    return Build(variant, settings, tuple(links), tuple(overrides))


def _kernels(variant: Variant, settings: Settings) -> tuple[list[Object], list[str]]:
    """The kernels that the variant binds, hand-written ones first where they are asked for."""
    objects, overrides = [], []
    for op, owner in variant.owners().items():
        source = GENERATED / owner.name / f"{op}.c"
        override = CSRC / "asm" / variant.platform.name / owner.name / f"{op}.S"
        if settings.asm and override.is_file():
            source = override
            overrides.append(f"{owner.name}/{op}.S")
        objects.append(_kernel(variant, settings, source, owner.name))
    return objects, overrides


def _kernel(variant: Variant, settings: Settings, source: Path, owner: str) -> Object:
    """A kernel, compiled for its owner's CPU: the same object serves all descendants. Scalar ones have a class."""
    from krafla.runtime.targets import variants

    platform = variant.platform
    if owner == "scalar":
        # fmaf is one instruction only where the CPU has it.
        mcpu = variant.mcpu if variant.fused else BASELINE
        flags: tuple[str, ...] = ("-DML_ISA_SCALAR", f"-DML_FUSED={int(variant.fused)}")
    else:
        mcpu = variants(platform)[owner].mcpu
        flags = (f"-DML_ISA_{owner.upper()}",)
    return Object(source, platform.library_triple, mcpu, (*settings.flags, *_position(platform), *flags))


def _link(variant: Variant, settings: Settings, product: str, kernels: Sequence[Object]) -> Link:
    platform = variant.platform
    shared = product == LIBRARY
    triple = platform.library_triple if shared else platform.program_triple
    sources = _engine_sources() if shared else (*_engine_sources(), *_program_sources(product))
    objects = [*kernels, *(_engine(variant, settings, source, triple) for source in sources)]
    if product in ("ml_bench", "test_kernels"):
        objects += _twins(variant, settings, kernels)
    name = platform.library if shared else f"{product}{platform.program_suffix}"
    return Link(name, triple, BASELINE, tuple(objects), _link_flags(platform, settings, shared, product))


def _link_flags(platform: Platform, settings: Settings, shared: bool, product: str) -> tuple[str, ...]:
    flags = [] if settings.debug else ["-s"]
    if platform.system == "wasi":
        return (*flags, "-mexec-model=reactor", "-Wl,--export-dynamic") if shared else tuple(flags)
    if platform.system == "linux":
        flags += ["-Wl,--gc-sections", "-Wl,--build-id=none"]
        flags += ["-shared", f"-Wl,-soname,{platform.library}"] if shared else ["-static"]
    elif shared:
        flags += ["-shared"]
    if platform.system == "windows" and not shared:
        flags += ["-lshell32"]
    return tuple(flags)


def _engine(variant: Variant, settings: Settings, source: Path, triple: str) -> Object:
    """An engine's or program's file: at the baseline unless it depends on the ISA."""
    guard = source.relative_to(CSRC).as_posix() in GUARDS if source.is_relative_to(CSRC) else False
    bound = _depends_on_isa(source)
    whole = variant.platform.architecture == "wasm32"  # there is no check inside a module that has not loaded
    mcpu = variant.mcpu if bound and (whole or not guard) else BASELINE
    flags = (f"-DML_ISA_{variant.name.upper()}",) if bound else ()
    return Object(source, triple, mcpu, (*settings.flags, *_position(variant.platform), *flags))


def _twins(variant: Variant, settings: Settings, kernels: Sequence[Object]) -> list[Object]:
    """The scalar kernels that the variant does not bind itself, in its class."""
    bound = {o.source for o in kernels}
    sources = [GENERATED / "scalar" / f"{op.name}.c" for op in OPS if not op.optional]
    mcpu = variant.mcpu if variant.fused else BASELINE
    flags = (*settings.flags, *_position(variant.platform), *_TWIN_FLAGS)
    flags = (*flags, "-DML_ISA_SCALAR", f"-DML_FUSED={int(variant.fused)}")
    return [Object(s, variant.platform.library_triple, mcpu, flags) for s in sources if s not in bound]


def _position(platform: Platform) -> tuple[str, ...]:
    return ("-fPIC",) if platform.system in ("linux", "macos") else ()


@cache
def _engine_sources() -> tuple[Path, ...]:
    return tuple(sorted(p for p in CSRC.rglob("*.c") if p.relative_to(CSRC).parts[0] != "app"))


def _program_sources(product: str) -> tuple[Path, ...]:
    names = ["main_guard", product]
    names += ["op_table"] if product in ("ml_bench", "test_kernels") else ["text_stream"]
    names += ["options"] if product != "test_kernels" else []
    tables = (GENERATED / "ml_ops.c",) if "op_table" in names else ()
    return (*(CSRC / "app" / f"{name}.c" for name in names), *tables)


# --- What a file includes ---------------------------------------------------------------------------------


@cache
def _closure(source: Path) -> tuple[Path, ...]:
    """The file and every header of ours that it includes, directly or not."""
    found: dict[Path, None] = {}
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        for name in _includes(path):
            places = (folder / name for folder in (path.parent, GENERATED, CSRC))
            if here := next((p.resolve() for p in places if p.is_file()), None):
                waiting.append(here)
    return tuple(sorted(found))


@cache
def _includes(path: Path) -> tuple[str, ...]:
    return tuple(_INCLUDE.findall(path.read_text(encoding="utf-8")))


@cache
def _closure_digest(source: Path) -> str:
    state = hashlib.sha256()
    for path in _closure(source.resolve()):
        data = path.read_bytes()
        state.update(f"{path.name} {len(data)}\n".encode() + data)
    return state.hexdigest()


def _depends_on_isa(source: Path) -> bool:
    return (GENERATED / "ml_config.h").resolve() in _closure(source.resolve())


@cache
def _store() -> Path:
    return folders.room("build")


# --- Running ----------------------------------------------------------------------------------------------


def run(builds: Sequence[Build], report: progress.Report = progress.silent, jobs: int | None = None) -> None:
    """Compile and link all of it; each object and file once."""
    links = list({link.digest: link for build in builds for link in build.links}.values())
    links = [link for link in links if not link.path.is_file()]
    objects = list({o.digest: o for link in links for o in link.objects}.values())
    objects = [made for made in objects if not made.path.is_file()]
    warm = list({(link.triple, link.mcpu): link for link in links}.values())
    steps = len(objects) + len(links) + len(warm)
    done = 0

    def finish(futures: Iterable[Future[None]]) -> None:
        nonlocal done
        for future in as_completed(futures):
            future.result()
            done += 1
            report("building", done, steps)

    workers = ThreadPoolExecutor(jobs or os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(dir=_store()) as scratch, workers as pool:
        headers = Headers(Path(scratch), pool)
        try:
            warming = [pool.submit(_warm, link) for link in warm]
            # Debug information would tell of the header.
            headers.prepare([o.compilation for o in objects if "-g" not in o.flags])
            finish([*warming, *(pool.submit(o.make, headers) for o in objects)])
            finish([pool.submit(link.make) for link in links])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _warm(link: Link) -> None:
    """Link something empty: zig's C library for the target is built meanwhile, once."""
    with tempfile.TemporaryDirectory(dir=_store()) as scratch:
        source = Path(scratch) / "warm.c"
        shared = "-shared" in link.flags or any("reactor" in flag for flag in link.flags)
        source.write_text(
            "int krafla_warm;\n" if shared else "int main(void) { return 0; }\n", encoding="utf-8"
        )
        arguments = ["cc", "-target", link.triple, f"-mcpu={link.mcpu}", *link.flags]
        zig.run([*arguments, str(source), "-o", str(Path(scratch) / "warm.out")])


# --- Delivering -------------------------------------------------------------------------------------------


def deliver(build: Build, out: Path) -> Path:
    """Copy the files to OUT/<target>/<isa>/ with a manifest; what is there already stays."""
    folder = out / build.variant.platform.name / build.variant.name
    with access(folder, "write the build"):
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for link in build.links:
            data = link.path.read_bytes()
            files[link.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            _place(folder / link.name, data)
        _place(folder / "manifest.json", manifest(build, files).encode())
    return folder


def manifest(build: Build, files: dict[str, dict[str, object]]) -> str:
    """What was built from what, without dates or paths."""
    variant = build.variant
    facts = {
        "target": variant.platform.name,
        "isa": variant.name,
        "class": "F" if variant.fused else "U",
        "requires": variant.machine.features,
        "mcpu": variant.mcpu,
        "triples": {link.name: link.triple for link in build.links},
        "flags": build.settings.flags,
        "link_flags": {link.name: link.flags for link in build.links},
        "kernels": {op: owner.name for op, owner in variant.owners().items()},
        "overrides": build.overrides,
        "zig": zig.version(),
        "files": files,
    }
    return json.dumps(facts, indent=2) + "\n"


def _place(path: Path, data: bytes) -> None:
    if path.is_file() and path.read_bytes() == data:
        return
    with folders.replacing(path) as temporary:
        temporary.write_bytes(data)
    if path.suffix != ".json":
        path.chmod(0o755)

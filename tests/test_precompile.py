"""Precompiled headers change nothing but the time that compiling takes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from krafla.runtime import crossbuild, zig
from krafla.runtime.paths import CSRC, GENERATED
from krafla.runtime.precompile import Headers, beginning
from krafla.runtime.targets import platform, variants


def kernels(target: str, isa: str) -> list[crossbuild.Object]:
    """Three kernels with the same beginning."""
    build = crossbuild.plan(variants(platform(target))[isa], crossbuild.Settings(products=("library",)))
    folder = GENERATED / isa
    return [o for o in build.links[0].objects if o.source.parent == folder][:3]


def test_the_beginning_of_a_file() -> None:
    assert beginning(GENERATED / "sse2" / "add.c") == '#include "ml_config.h"\n#include "core/x86_common.h"\n'
    assert beginning(GENERATED / "sse2" / "silu_mul.c") == beginning(GENERATED / "sse2" / "add.c")
    assert beginning(CSRC / "core" / "isa_check.c") == ""  # a macro stands before the includes
    assert beginning(CSRC / "asm" / "x86_64-linux" / "sse2" / "add.S") == ""


@pytest.mark.parametrize(("target", "isa"), [("x86_64-linux", "sse2"), ("aarch64-macos", "neon")])
def test_the_same_objects(target: str, isa: str, tmp_path: Path) -> None:
    made = [o.compilation for o in kernels(target, isa)]
    with ThreadPoolExecutor(1) as pool:
        headers = Headers(tmp_path, pool)
        headers.prepare(made[:2])
        assert headers.flags(made[0]) == ()  # two are not worth it
        headers.prepare(made)
        shared = headers.flags(made[0])
    assert shared[0] == "-include-pch"
    for one in made:
        assert headers.flags(one) == shared
        files = [tmp_path / "with.o", tmp_path / "without.o"]
        for output, flags in zip(files, (shared, ()), strict=True):
            zig.run(["cc", *one.arguments, *flags, "-c", str(one.source), "-o", str(output)])
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_mistake_is_told_where_it_is(tmp_path: Path) -> None:
    """A header that does not compile is left out; the file that includes it says why."""
    (tmp_path / "bad.h").write_text("#error this one\n")
    right = kernels("x86_64-linux", "sse2")[0].compilation
    sources = [tmp_path / f"{i}.c" for i in range(3)]
    for source in sources:
        source.write_text('#include "bad.h"\n')
    wrong = [crossbuild.Compilation(path, (*right.arguments, f"-I{tmp_path}")) for path in sources]
    with ThreadPoolExecutor(1) as pool:
        headers = Headers(tmp_path, pool)
        headers.prepare(wrong)
        assert headers.flags(wrong[0]) == ()
    with pytest.raises(zig.CompileError, match="this one"):
        zig.run(["cc", *wrong[0].arguments, "-c", str(wrong[0].source), "-o", str(tmp_path / "x.o")])

"""The generator: templates know no machine, descriptors are checked, drift is noticed, one file adds an ISA."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import krafla.isa_specs
from krafla.codegen import registry
from krafla.codegen.cli import main
from krafla.codegen.isa import FACETS, Isa
from krafla.codegen.ops import BY_NAME, OPS
from krafla.codegen.render import Renderer
from tests import kernels, native

ISAS = registry.load_isas()
TEMPLATES = sorted((native.ROOT / "templates").glob("*.j2"))
INTRINSICS = re.compile(
    r"\b_mm\w*|\b_tile_\w*|\b__m\d+\w*|\bv(ld|st|add|sub|mul|mla|dot|dup|get|cvt|fma|bsl|abs|neg|max|min|pad|sh|and"
    r"|reinterpret)\w*_[fsu](8|16|32)\b|\bsv(ld|st|add|mul|dot|dup|mla|while|sel)\w*|\b__riscv_\w*|\bwasm_\w+"
    r"|\b(u?int|float)(8|16|32)x\d+\w*_t|\bsv(float|int|uint|bool)\w*_t|immintrin|arm_neon|arm_sve|__AVX|__SSE|__ARM"
)


def krafla_gen(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


# --- Templates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_know_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not (found := INTRINSICS.search(text)), f"{path.name}: {found}"
    words = set(re.findall(r"[a-z0-9_]+", text.lower()))
    machines = (set(ISAS) - {"scalar"}) | {"x86", "arm", "avx", "sse", "amx", "riscv", "simd128", "vnni"}
    assert not words & machines, f"{path.name} names {words & machines}"


def test_the_search_finds_intrinsics() -> None:
    """The pattern knows what generated kernels are full of."""
    for isa in ISAS:
        if isa == "scalar":
            continue
        texts = [path.read_text(encoding="utf-8") for path in (native.ROOT / "generated" / isa).glob("*.c")]
        assert any(INTRINSICS.search(text) for text in texts), isa


def test_scalar_is_named_only_for_loop_tails() -> None:
    for path in TEMPLATES:
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "scalar" not in line.lower() or "math_headers" in line, f"{path.name}: {line}"


def test_every_template_is_used() -> None:
    named = {op.template for op in OPS} | {"simd_math.h.j2"}
    texts = " ".join(path.read_text(encoding="utf-8") for path in TEMPLATES)
    tiles = {
        isa.tile.template for isa in ISAS.values() if isa.tile is not None and hasattr(isa.tile, "template")
    }
    unused = [
        path.name for path in TEMPLATES if path.name not in named | tiles and f'"{path.name}"' not in texts
    ]
    assert not unused


# --- Descriptors ------------------------------------------------------------------------------------------


def wrong(name: str, **changes: Any) -> list[Isa]:
    """All descriptors, one of them changed."""
    return [replace(isa, **changes) if isa.name == name else isa for isa in ISAS.values()]


def made_of(name: str, facet: str, **changes: Any) -> list[Isa]:
    return wrong(name, **{facet: replace(getattr(ISAS[name], facet), **changes)})


def fused_on_unfused_kernels() -> list[Isa]:
    """avx2 would fuse with words that it inherits, but the kernels it inherits with them do not."""
    assert ISAS["sse2"].f32 is not None
    words = replace(ISAS["sse2"].f32, fma="_mm_fmadd_ps({a}, {b}, {c})")
    changes: dict[str, dict[str, Any]] = {
        "sse2": {"f32": words},
        "avx2": {"f32": None, "reduce": None, "f16": None},
    }
    return [replace(isa, **changes.get(isa.name, {})) for isa in ISAS.values()]


ERRORS = {
    "two descriptors are named 'avx2'": [*ISAS.values(), ISAS["avx2"]],
    "isa_specs/avx2.py: parent is 'sse5', which does not exist": wrong("avx2", parent="sse5"),
    "runs in a circle": wrong("sse2", parent="avx2"),
    "ends at 'sse2', not at scalar": wrong("sse2", parent=None),
    "isa_specs/avx2.py: f16 has 8 lanes, f32 has 4": made_of("avx2", "f32", lanes=4),
    "isa_specs/avx2.py: reduce is not defined together with f32": wrong("avx2", reduce=None),
    "isa_specs/avx2.py: fused, but its f32 words have no fma": made_of("avx2", "f32", fma=""),
    "isa_specs/avx2.py: pack.group is 8, its lanes are 4": made_of("avx2", "pack", lanes=ISAS["sse2"].f32),
    "isa_specs/avx2.py: packed kernels need a tile whose last size is 1": made_of(
        "avx2", "tile", sizes=(4, 2)
    ),
    "isa_specs/avx2.py: tile.groups is 3: it must divide the largest size": made_of("avx2", "tile", groups=3),
    "falls back to sse2, whose multiply-add rounds": fused_on_unfused_kernels(),
    "isa_specs/scalar.py: no ISA of its chain defines rowdot": wrong("scalar", rowdot=None),
    "tile.pairs reads another packed layout": made_of("avx2", "tile", pairs=ISAS["sse2"].pack.dot),  # type: ignore
}


@pytest.mark.parametrize("sentence", ERRORS)
def test_contradictions_are_named(sentence: str) -> None:
    with pytest.raises(registry.DescriptorError, match=re.escape(sentence)):
        registry.check(ERRORS[sentence])


def test_right_descriptors_pass() -> None:
    registry.check(ISAS.values())
    assert list(ISAS) == sorted(ISAS, key=lambda name: (ISAS[name].priority, name))


def test_an_op_is_emitted_where_a_facet_it_needs_is_defined() -> None:
    """The fallback chains of the specification follow from the facets."""
    for isa in ISAS.values():
        machine = registry.resolve(isa, ISAS)
        for op in OPS:
            owns = any(getattr(isa, facet) is not None for facet in op.needs | op.prefers)
            assert registry.emits(op, machine) == (owns and op.available(machine)), (isa.name, op.name)
        assert set(isa.own_facets) <= set(FACETS)
    owners = {
        ("avxvnni", "matvec_q8"): "avxvnni",
        ("avxvnni", "rmsnorm"): "avx2",
        ("avx512vnni", "rmsnorm"): "avx512vnni",
        ("sse41", "softmax"): "sse2",
        ("sse41", "dot_q8"): "sse41",
        ("sse2", "matvec_q8_pk_f16"): None,
        ("scalar", "matmul_q8_pk"): None,
    }
    for (name, op_name), owner in owners.items():
        bound = registry.bind(BY_NAME[op_name], registry.resolve(ISAS[name], ISAS), ISAS)
        assert (bound.name if bound else None) == owner, (name, op_name)


def test_every_op_has_a_reference_of_its_name() -> None:
    for op in OPS:
        assert callable(op.reference), op.name
        assert op.reference.__doc__, op.name


# --- What is written --------------------------------------------------------------------------------------


def test_committed_files_are_up_to_date() -> None:
    result = krafla_gen("--check")
    assert (result.exit_code, result.stdout) == (0, ""), result.output


def test_output_is_the_same_every_time_and_names_no_place() -> None:
    first, second = (Renderer().files(["avx2"]) for _ in range(2))
    assert first == second
    for path, text in first.items():
        assert str(native.ROOT) not in text, path
        assert not re.search(r"20\d\d-\d\d-\d\d", text), path


def test_check_finds_stale_missing_and_orphan_files(tmp_path: Path) -> None:
    out = tmp_path / "generated"
    assert krafla_gen("--out", out, "--isa", "sse2").exit_code == 0
    assert krafla_gen("--out", out, "--isa", "sse2", "--check").exit_code == 0
    (out / "sse2" / "add.c").write_text("/* changed by hand */\n")
    (out / "sse2" / "rope.c").unlink()
    (out / "sse2" / "old_kernel.c").write_text("\n")
    (out / "gone_isa").mkdir()
    (out / "gone_isa" / "add.c").write_text("\n")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    result = krafla_gen("--out", out, "--isa", "sse2", "--check")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "stale: sse2/add.c",
        "missing: sse2/rope.c",
        "orphan: gone_isa/add.c",
        "orphan: sse2/old_kernel.c",
    ]
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert krafla_gen("--out", out, "--isa", "sse2").exit_code == 0
    assert krafla_gen("--out", out, "--isa", "sse2", "--check").exit_code == 0
    assert not (out / "sse2" / "old_kernel.c").exists()


def test_unfused_numerics_write_no_fma() -> None:
    words = re.compile(r"fmadd|vfma|svmla|__riscv_vfmacc")
    for name, isa in ISAS.items():
        if not any(target.fused for target in isa.targets) or len(isa.targets) > 1:
            continue
        fused = " ".join(Renderer().files([name]).values())
        unfused = Renderer(numerics="unfused").files([name])
        assert words.search(fused), name
        assert not words.search(" ".join(unfused.values())), name
        assert "#define ML_FUSED 1" not in unfused["ml_config.h"]


def test_list_names_every_isa() -> None:
    result = krafla_gen("--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(ISAS)


def test_explain_an_isa_and_an_op() -> None:
    isa = krafla_gen("--explain", "avxvnni").stdout
    assert "avxvnni -> avx2 -> sse41 -> sse2 -> scalar" in isa
    assert "ml_k_matvec_q8_pk_avxvnni" in isa and "ml_k_rmsnorm_avx2" in isa and "+128" in isa
    op = krafla_gen("--explain", "rmsnorm").stdout
    assert "templates/rmsnorm.c.j2" in op and "float eps" in op


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--explain", "avx9"), "--explain avx9: neither an ISA"),
        (("--isa", "avx9"), "--isa avx9: no such ISA"),
    ],
)
def test_unknown_names_are_usage_errors(arguments: tuple[str, ...], sentence: str) -> None:
    result = krafla_gen(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"krafla-gen: {sentence}")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = krafla_gen("--out", tmp_path / "file" / "generated", "--isa", "sse2")
    assert result.exit_code == 4
    assert result.stderr.startswith("krafla-gen: ") and "Traceback" not in result.output


# --- A new ISA --------------------------------------------------------------------------------------------

NEW_ISA = '''"""sse2_made_up: SSE2 with a division that takes the long way and tiles of three tokens."""

from dataclasses import replace

from krafla.codegen.isa import Isa
from krafla.codegen.tiles import VectorTile
from krafla.isa_specs import sse2

ISA = Isa(
    name="sse2_made_up",
    parent="sse2",
    doc="A machine of the tests.",
    family="x86",
    priority=11,
    targets=sse2.ISA.targets,
    headers=sse2.ISA.headers,
    f32=replace(sse2.F32_WORDS, div="_mm_div_ps(_mm_mul_ps({a}, _mm_set1_ps(1.0f)), {b})"),
    reduce=sse2.ISA.reduce,
    f16=sse2.ISA.f16,
    tile=VectorTile(sizes=(3, 1)),
)
'''


@pytest.fixture
def extra_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose descriptors count as if they lay in isa_specs/."""
    folder = tmp_path / "isa_specs"
    folder.mkdir()
    monkeypatch.setattr(krafla.isa_specs, "__path__", [*krafla.isa_specs.__path__, str(folder)])
    registry.load_isas.cache_clear()
    registry.machines.cache_clear()
    yield folder
    for path in folder.glob("*.py"):
        sys.modules.pop(f"krafla.isa_specs.{path.stem}", None)
        vars(krafla.isa_specs).pop(path.stem, None)
    monkeypatch.undo()
    registry.load_isas.cache_clear()
    registry.machines.cache_clear()


def test_one_descriptor_file_adds_an_isa(extra_descriptors: Path, tmp_path: Path) -> None:
    """Its kernels are written, bound, compiled and right; it inherits everything else."""
    (extra_descriptors / "sse2_made_up.py").write_text(NEW_ISA)
    if missing := kernels.missing_feature("sse2_made_up"):
        pytest.skip(f"this CPU lacks {missing}")
    out = tmp_path / "generated"
    result = krafla_gen("--out", out, "--isa", "sse2_made_up")
    assert result.exit_code == 0, result.output
    written = {path.stem for path in (out / "sse2_made_up").glob("*.c")}
    assert {"silu_mul", "rmsnorm", "matmul_q8_pk", "tile_q8", "dot_f16"} <= written
    assert not written & {"matvec_q8", "matvec_q8_pk"}, "inherited facets give no kernels"
    ops = ["silu_mul", "matmul_q4_pk", "tile_q8", "dot_q8"]
    tested = kernels.load("sse2_made_up", isas=registry.load_isas(), ops=ops)
    for name in ("silu_mul", "matmul_q4_pk", "dot_q8"):
        for label, given in kernels.cases(BY_NAME[name]):
            found = kernels.run(tested, BY_NAME[name], given)
            assert not kernels.difference(found, kernels.expected(BY_NAME[name], given, fused=False)), label


@pytest.mark.parametrize("text", ["", NEW_ISA.replace('name="sse2_made_up"', 'name="other"')])
def test_a_descriptor_file_defines_the_isa_of_its_name(extra_descriptors: Path, text: str) -> None:
    (extra_descriptors / "sse2_made_up.py").write_text(text)
    result = krafla_gen("--list")
    assert result.exit_code == 2
    assert result.stderr == "krafla-gen: isa_specs/sse2_made_up.py: defines no ISA named 'sse2_made_up'\n"


def test_generation_without_the_formatter_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "clang_format", None)
    result = krafla_gen("--out", tmp_path, "--isa", "sse2")
    assert result.exit_code == 4
    assert "pip install 'krafla[gen]'" in result.stderr
    shutil.rmtree(tmp_path / "sse2")

"""The bindings are what the C compiler makes of the header; what cannot be read is refused."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from krafla.codegen.ops import OPS
from krafla.runtime import compile as compiler
from krafla.runtime import header, host, zig
from krafla.runtime.bind import Api, Declarations
from krafla.runtime.kernels import Kernels
from krafla.runtime.paths import CSRC

KRAFLA_H = (CSRC / "krafla.h").read_text(encoding="utf-8")


def build(tmp_path: Path, code: str) -> Path:
    source = tmp_path / "unit.c"
    source.write_text(code, encoding="utf-8")
    unit = compiler.Unit(source, compiler.BASELINE)
    flags = (*compiler.FLAGS, "-Wno-unused-parameter")
    return compiler.build(compiler.Plan("test", zig.host_triple(), (unit,), flags, (CSRC,)))


def test_every_exported_function_is_found() -> None:
    code = re.sub(r"/\*.*?\*/", "", KRAFLA_H + (CSRC / "core" / "isa_check.h").read_text(), flags=re.DOTALL)
    names = set(re.findall(r"^ML_API [^;(]*?(\w+)\(", code, re.MULTILINE))
    assert names == set(header.read(CSRC).functions)
    assert len(names) > 20


def test_struct_layouts_and_constants_are_the_compilers(tmp_path: Path) -> None:
    declared = header.read(CSRC)
    types = Declarations(declared)
    queries = [f"sizeof({name})" for name in declared.structs]
    expected = [ctypes.sizeof(types.types[name]) for name in declared.structs]
    for name, fields in declared.structs.items():
        for field in fields:
            queries.append(f"offsetof({name}, {field.name})")
            expected.append(getattr(types.types[name], field.name).offset)
    queries += list(declared.constants)
    expected += list(declared.constants.values())
    body = ", ".join(f"(long long){query}" for query in queries)
    code = f'#include "krafla.h"\nML_API long long values[] = {{{body}}};\n'
    library = ctypes.CDLL(str(build(tmp_path, code)))
    found = list((ctypes.c_longlong * len(queries)).in_dll(library, "values"))
    assert dict(zip(queries, found, strict=True)) == dict(zip(queries, expected, strict=True))


def test_types() -> None:
    declared = header.parse(
        "typedef struct box box;\n#define ML_API \\\n  visible\n"
        "ML_API const char *name(const box *b, box **made, float *y, const char **out, size_t n); // x\n"
        "ML_API void none(void);"
    )
    types = Declarations(declared)
    name = declared.functions["name"]
    assert types.ctype(name.result) is ctypes.c_char_p
    assert [types.ctype(p.type) for p in name.parameters] == [
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_float),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_size_t,
    ]
    assert declared.functions["none"].parameters == ()


@pytest.mark.parametrize(
    "text",
    [
        "ML_API int f(int a[static 3]);",
        "ML_API int f(int);",
        "typedef struct pair { int a, b; } pair;",
        "typedef union u { int a; } u;",
        "ML_API int (*f(void))(int);",
    ],
)
def test_unreadable_declarations_are_refused(text: str) -> None:
    with pytest.raises(header.HeaderError, match="cannot read the declaration"):
        header.parse(text)


def test_unknown_types_are_refused() -> None:
    declared = header.parse("ML_API void f(wchar_t c);")
    with pytest.raises(header.HeaderError, match="unknown type wchar_t"):
        Declarations(declared).ctype(declared.functions["f"].parameters[0].type)


def test_a_library_without_the_functions_is_refused(tmp_path: Path) -> None:
    path = build(tmp_path, '#include "core/ml.h"\nML_API int nothing;\n')
    with pytest.raises(AttributeError, match="ml_"):
        Api(path)


def test_kernels_are_bound_from_the_registry() -> None:
    facts = host.choose()
    kernels = Kernels()
    assert kernels.machine.name == facts.name
    assert len(facts.kernels) == sum(name in {op.name for op in OPS} for name in dir(kernels))
    for name in ("scalar", facts.name):
        chosen = Kernels(name)
        x = np.array([1, 2, 3, -np.inf, 0.5], np.float32)
        expected = np.exp(x) / np.exp(x).sum()
        chosen.softmax(x, len(x))
        assert np.allclose(x, expected, rtol=1e-6)
        y = np.ones(5, np.float32)
        chosen.add(y, x, 5)
        assert np.array_equal(y, x + 1)
    with pytest.raises(ctypes.ArgumentError, match="float32"):
        kernels.softmax(np.zeros(4), 4)
    with pytest.raises(ctypes.ArgumentError, match="WRITEABLE"):
        kernels.softmax(np.broadcast_to(np.float32(1), 4), 4)
    with pytest.raises(AttributeError, match=f"{facts.name} has no kernel convolve"):
        _ = kernels.convolve

"""The CPU check: which feature is missing, on this machine and on described ones."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from pathlib import Path

import pytest

from krafla.codegen.registry import machines
from tests.native import CSRC, build_library, write_source

OK, ISA, ARGUMENT = 0, 5, 7
X86 = platform.machine() in ("x86_64", "AMD64")
# Name in ML_ISA_REQUIRES, how it is printed, flag in Linux's /proc/cpuinfo.
FEATURES = [
    ("SSE2", "SSE2", "sse2"),
    ("SSSE3", "SSSE3", "ssse3"),
    ("SSE41", "SSE4.1", "sse4_1"),
    ("AVX", "AVX", "avx"),
    ("F16C", "F16C", "f16c"),
    ("FMA", "FMA", "fma"),
    ("AVX2", "AVX2", "avx2"),
    ("AVXVNNI", "AVX-VNNI", "avx_vnni"),
    ("AVX512F", "AVX-512F", "avx512f"),
    ("AVX512DQ", "AVX-512DQ", "avx512dq"),
    ("AVX512BW", "AVX-512BW", "avx512bw"),
    ("AVX512VL", "AVX-512VL", "avx512vl"),
    ("AVX512VNNI", "AVX-512 VNNI", "avx512_vnni"),
    ("AMXTILE", "AMX tiles", "amx_tile"),
    ("AMXINT8", "AMX-INT8", "amx_int8"),
]
# A CPU made of a table; what the test does not fill in is zero.
FAKE_CPU = r"""
#include <stdbool.h>
#include <stdint.h>
typedef struct fake_leaf { uint32_t leaf, subleaf, registers[4]; } fake_leaf;
fake_leaf fake_leaves[8];
uint32_t fake_highest, fake_xcr0;
static bool fake_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *registers)
{
    for (int i = 0; i < 4; i++)
        registers[i] = 0;
    if (leaf > fake_highest)
        return false;
    for (int i = 0; i < 8; i++)
        if (fake_leaves[i].leaf == leaf && fake_leaves[i].subleaf == subleaf)
            for (int j = 0; j < 4; j++)
                registers[j] = fake_leaves[i].registers[j];
    return true;
}
static uint32_t fake_xgetbv(void) { return fake_xcr0; }
uint32_t fake_tiles;
static bool fake_granted(void) { return fake_tiles != 0; }
#define ML_CPUID fake_cpuid
#define ML_TILES_GRANTED fake_granted
#define ML_XGETBV fake_xgetbv
"""


class Leaf(ctypes.Structure):
    _fields_ = [("leaf", ctypes.c_uint32), ("subleaf", ctypes.c_uint32), ("registers", ctypes.c_uint32 * 4)]


EAX, EBX, ECX, EDX = range(4)
SSE = [(1, 0, EDX, 26), (1, 0, ECX, 9), (1, 0, ECX, 19)]
AVX2 = [
    *SSE,
    (1, 0, ECX, 28),
    (1, 0, ECX, 29),
    (1, 0, ECX, 12),
    (7, 0, EBX, 5),
    (1, 0, ECX, 27),
]  # 27: OSXSAVE
AVX512 = [*AVX2, (7, 0, EBX, 16), (7, 0, EBX, 17), (7, 0, EBX, 30), (7, 0, EBX, 31)]
AMX = [*AVX512, (7, 0, ECX, 11), (7, 0, EDX, 24), (7, 0, EDX, 25)]
SUBLEAF1 = (7, 0, EAX, 0)  # leaf 7 has a subleaf 1


@dataclass
class Cpu:
    bits: list[tuple[int, int, int, int]]  # leaf, subleaf, register, bit
    highest: int = 0x1F
    xcr0: int = 0xE7
    tiles: bool = True  # the system grants tile registers when asked

    def install(self, library: ctypes.CDLL) -> None:
        table: dict[tuple[int, int], list[int]] = {}
        for leaf, subleaf, register, bit in self.bits:
            table.setdefault((leaf, subleaf), [0] * 4)[register] |= 1 << bit
        array = (Leaf * 8).in_dll(library, "fake_leaves")
        ctypes.memset(array, 0, ctypes.sizeof(array))
        for i, ((leaf, subleaf), registers) in enumerate(table.items()):
            array[i] = Leaf(leaf, subleaf, (ctypes.c_uint32 * 4)(*registers))
        ctypes.c_uint32.in_dll(library, "fake_highest").value = self.highest
        ctypes.c_uint32.in_dll(library, "fake_xcr0").value = self.xcr0
        ctypes.c_uint32.in_dll(library, "fake_tiles").value = int(self.tiles)


CPUS = {
    "pentium3": Cpu([]),
    "core2": Cpu(SSE[:2], highest=0xA),
    "nehalem": Cpu(SSE, highest=0xB),
    "ivybridge": Cpu([*AVX2[:5], (1, 0, ECX, 27)]),
    "haswell": Cpu(AVX2, xcr0=0x7),
    "haswell, AVX off in the system": Cpu(AVX2, xcr0=0x3),
    "haswell, no OSXSAVE": Cpu(AVX2[:-1]),
    "alderlake": Cpu([*AVX2, SUBLEAF1, (7, 1, EAX, 4)], xcr0=0x7),
    "alderlake, subleaf hidden": Cpu([*AVX2, (7, 1, EAX, 4)], xcr0=0x7),
    "skylake-x": Cpu(AVX512),
    "icelake": Cpu([*AVX512, (7, 0, ECX, 11)]),
    "icelake, AVX-512 off in the system": Cpu([*AVX512, (7, 0, ECX, 11)], xcr0=0x7),
    "sapphire rapids": Cpu(AMX, xcr0=0x600E7),
    "sapphire rapids, tile state off in the system": Cpu(AMX),
    "sapphire rapids, tiles refused": Cpu(AMX, xcr0=0x600E7, tiles=False),
    "leaf 7 beyond the highest": Cpu(AVX2, highest=6),
}
# What each ISA misses there; None: usable.
MISSING: dict[str, dict[str, str | None]] = {
    "sapphire rapids": {"avx512vnni": None, "amx_int8": None},
    "sapphire rapids, tile state off in the system": {"avx512vnni": None, "amx_int8": "AMX tiles"},
    "sapphire rapids, tiles refused": {"avx512vnni": None, "amx_int8": "AMX tiles"},
    "pentium3": {"scalar": None, "sse2": "SSE2", "avx2": "SSE2"},
    "core2": {"sse2": None, "sse41": "SSE4.1", "avx2": "SSE4.1"},
    "nehalem": {"sse41": None, "avx2": "AVX", "avxvnni": "AVX", "avx512vnni": "AVX"},
    "ivybridge": {"sse41": None, "avx2": "AVX2 or FMA"},
    "haswell": {"avx2": None, "avxvnni": "AVX-VNNI", "avx512vnni": "AVX-512F"},
    "haswell, AVX off in the system": {"sse41": None, "avx2": "AVX"},
    "haswell, no OSXSAVE": {"sse41": None, "avx2": "AVX"},
    "alderlake": {"avx2": None, "avxvnni": None, "avx512vnni": "AVX-512F"},
    "alderlake, subleaf hidden": {"avx2": None, "avxvnni": "AVX-VNNI"},
    "skylake-x": {"avx2": None, "avxvnni": "AVX-VNNI", "avx512vnni": "AVX-512 VNNI"},
    "icelake": {"avx2": None, "avxvnni": "AVX-VNNI", "avx512vnni": None},
    "icelake, AVX-512 off in the system": {"avx2": None, "avx512vnni": "AVX-512F"},
    "leaf 7 beyond the highest": {"sse41": None, "avx2": "AVX2"},
}


def fake_library(isa: str) -> ctypes.CDLL:
    """The check of one ISA on the made-up CPU."""
    text = FAKE_CPU + (CSRC / "core" / "isa_check.c").read_text(encoding="utf-8")
    return build_library([write_source("fake_cpu.c", text)], isa, extra=(f"-I{CSRC / 'core'}",), cpu="scalar")


def checked(library: ctypes.CDLL) -> tuple[int, str | None]:
    missing = ctypes.c_char_p()
    status = library.ml_isa_check(ctypes.byref(missing))
    return status, missing.value.decode() if missing.value else None


@pytest.mark.parametrize("name", CPUS)
def test_names_the_first_missing_feature(name: str) -> None:
    for isa, expected in MISSING[name].items():
        library = fake_library(isa)
        CPUS[name].install(library)
        status, missing = checked(library)
        if expected is None:
            assert (status, missing) == (OK, None), isa
        else:
            assert status == ISA
            assert missing in expected.split(" or "), isa


def test_a_caller_may_not_want_the_name() -> None:
    library = fake_library("avx2")
    CPUS["nehalem"].install(library)
    assert library.ml_isa_check(None) == ISA


@pytest.fixture(scope="module")
def probe() -> ctypes.CDLL:
    library = build_library(["core/isa_check.c"])
    library.ml_cpu_title.restype = ctypes.c_char_p
    library.ml_isa_name.restype = ctypes.c_char_p
    return library


def test_scalar_runs_everywhere(probe: ctypes.CDLL) -> None:
    assert checked(probe) == (OK, None)
    assert probe.ml_isa_name() == b"scalar"


@pytest.mark.parametrize(("token", "title", "flag"), FEATURES)
def test_features_of_this_machine(probe: ctypes.CDLL, token: str, title: str, flag: str) -> None:
    assert probe.ml_cpu_title(token.encode()) == title.encode()
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().split() if X86 and cpuinfo.exists() else []
    if flags or not X86:
        assert probe.ml_cpu_has(token.encode()) == (OK if flag in flags else ISA)
    else:
        assert probe.ml_cpu_has(token.encode()) in (OK, ISA)


def test_unknown_features(probe: ctypes.CDLL) -> None:
    assert probe.ml_cpu_has(b"AVX1024") == ARGUMENT
    assert probe.ml_cpu_title(b"AVX1024") is None


def test_every_required_feature_is_known(probe: ctypes.CDLL) -> None:
    """What the generator writes into ML_ISA_REQUIRES are the descriptor's features; each has a row in the table."""
    source = r"""
#include "ml_config.h"
#define NAME(token) #token " "
const char *required(void) { return "" ML_ISA_REQUIRES(NAME); }
"""
    for isa, machine in machines().items():
        library = build_library([write_source("required.c", source)], isa=isa, cpu="scalar")
        library.required.restype = ctypes.c_char_p
        required = library.required().decode().split()
        assert required == list(machine.features)
        assert required or isa == "scalar"
        for token in required:
            assert probe.ml_cpu_title(token.encode()), token
            assert probe.ml_cpu_has(token.encode()) in (OK, ISA)

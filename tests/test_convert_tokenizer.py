"""Converting tokenizer.json, Hugging Face folders and GGUF vocabularies; what cannot be converted is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from click.testing import CliRunner

from krafla.tools import convert_tokenizer as tool
from krafla.tools import gen_tokenizer, mlt
from krafla.tools.convert_tokenizer import convert_tokenizer
from krafla.tools.errors import AccessError, FormatError, ShapeError, UsageError
from krafla.tools.gen_tokenizer import generate
from krafla.tools.gguf_tokenizer import PRE_FLAGS, from_gguf, merges_of_scores
from krafla.tools.hf_tokenizer import from_json
from tests.tokenizer_tools import CTokenizer, load, smollm2, smollm2_values

Json = dict[str, Any]


def write_json(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


# ---- tokenizer.json ----


def normalizers(*parts: Json) -> Json:
    return {"type": "Sequence", "normalizers": list(parts)}


SPLIT: Json = {"type": "Split", "pattern": {"Regex": r"\w+"}, "behavior": "Isolated", "invert": False}
BYTE_LEVEL: Json = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("model WordPiece", "bytes", {"model.type": "WordPiece"}),
    ("dropout 0.1", "bytes", {"model.dropout": 0.1}),
    ("continuing_subword_prefix '##'", "bytes", {"model.continuing_subword_prefix": "##"}),
    ("end_of_word_suffix '</w>'", "bytes", {"model.end_of_word_suffix": "</w>"}),
    ("normalizer NFKC", "bytes", {"normalizer": {"type": "NFKC"}}),
    ("normalizer Lowercase", "bytes", {"normalizer": normalizers({"type": "NFC"}, {"type": "Lowercase"})}),
    (r"Split(pattern={'Regex': '\\w+'}", "bytes", {"pre_tokenizer.pretokenizers.0": SPLIT}),
    ("behavior='Removed'", "bytes", {"pre_tokenizer.pretokenizers.0.behavior": "Removed"}),
    ("invert=True", "bytes", {"pre_tokenizer.pretokenizers.0.invert": True}),
    ("ByteLevel without a regular", "bytes", {"pre_tokenizer": {**BYTE_LEVEL, "use_regex": False}}),
    ("add_prefix_space=True", "bytes", {"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}}),
    (
        "individual_digits=False",
        "bytes",
        {"pre_tokenizer.pretokenizers.0": {"type": "Digits", "individual_digits": False}},
    ),
    ("decoder WordPiece", "bytes", {"decoder": {"type": "WordPiece"}}),
    ("post_processor BertProcessing", "bytes", {"post_processor": {"type": "BertProcessing"}}),
    ("lstrip of added token '<s>'", "bytes", {"added_tokens.1.lstrip": True}),
    ("rstrip of added token '<s>'", "sentencepiece", {"added_tokens.1.rstrip": True}),
    ("single_word of added token '<s>'", "bytes", {"added_tokens.1.single_word": True}),
    ("'<s>', matched after normalization", "sentencepiece", {"added_tokens.1.normalized": True}),
    ("'<s>', matched after", "bytes", {"added_tokens.1.normalized": True, "normalizer": {"type": "NFC"}}),
    ("'<|a|>' (normalized), which overlaps", "bytes", {"added_tokens.3.normalized": True}),
    ("without byte_fallback", "sentencepiece", {"model.byte_fallback": False}),
    (
        "decoder Replace",
        "sentencepiece",
        {"normalizer": normalizers({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})},
    ),
    ("normalizer NFKC()", "sentencepiece", {"normalizer": {"type": "NFKC"}}),
    ("pre_tokenizer null", "sentencepiece", {"normalizer": None}),
    ("pre_tokenizer Metaspace", "sentencepiece", {"pre_tokenizer": {"type": "Metaspace", "split": True}}),
    ("decoder ByteFallback()", "sentencepiece", {"decoder": {"type": "ByteFallback"}}),
    ("decoder null", "sentencepiece", {"decoder": None}),
    ("tokens stand for byte 0x41", "sentencepiece", {"model.vocab.<0x41>": None}),
    ("merges list", "bytes", {"model.merges": None}),
    ("is no pair", "bytes", {"model.merges.0": "a b c"}),
    ("no token 'nowhere'", "bytes", {"model.merges.0": ["nowhere", "a"]}),
    ("id of 'a' is -1", "bytes", {"model.vocab.a": -1}),
    ("unk_token '<unk>'", "bytes", {"model.unk_token": "<unk>", "model.vocab.a": None}),
    (
        "more than one token before",
        "bytes",
        {"post_processor.single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}]},
    ),
    ("with ids []", "bytes", {"post_processor.special_tokens": {}}),
]


def changed(data: Json, changes: dict[str, Any]) -> Json:
    """A copy with the values at dotted paths replaced; None removes an entry of the vocabulary."""
    data = copy.deepcopy(data)
    for path, value in changes.items():
        *steps, last = path.split(".")
        place: Any = data
        for step in steps:
            place = place[int(step) if isinstance(place, list) else step]
        if isinstance(place, list):
            place[int(last)] = value
        elif steps[-1:] == ["vocab"] and value is None:
            del place[last]
        else:
            place[last] = value
    return data


@pytest.mark.parametrize(("sentence", "kind", "changes"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_the_format_cannot_express_is_named(
    sentence: str, kind: gen_tokenizer.Kind, changes: dict[str, Any], tmp_path: Path
) -> None:
    data = generate(kind, 600, flags=mlt.BOS).json
    source = write_json(tmp_path / "tokenizer.json", changed(data, changes))
    with pytest.raises(FormatError) as caught:
        convert_tokenizer(source, tmp_path / "t.mlt")
    message = str(caught.value)
    assert sentence in message and "\n" not in message
    assert not (tmp_path / "t.mlt").exists()


def test_equivalent_forms_are_accepted() -> None:
    generated = generate("bytes", 600)
    merges = [" ".join(pair) for pair in generated.json["model"]["merges"]]
    other = changed(
        generated.json,
        {
            "model.merges": [*merges[:1], *merges],  # of a repeated rule the last counts
            "normalizer": normalizers(),
            "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}]},
            "added_tokens.1.normalized": True,  # no normalizer, and nothing overlaps it
        },
    )
    assert from_json(other, "x").pack() == from_json(generated.json, "x").pack()


def test_gaps_between_ids_become_empty_tokens(tmp_path: Path) -> None:
    data = generate("bytes", 270).json
    data["added_tokens"].append({**data["added_tokens"][0], "id": 280, "content": "<far>"})
    convert_tokenizer(write_json(tmp_path / "tokenizer.json", data), tmp_path / "t.mlt")
    tokenizer = CTokenizer(tmp_path / "t.mlt")
    assert tokenizer.vocab == 281
    assert tokenizer.encode("<far>") == [280]
    assert tokenizer.piece(-1, 275) == b""


# ---- Folders ----


def folder_with(path: Path, files: dict[str, Json] | None = None, flags: int = 0) -> Path:
    write_json(path / "tokenizer.json", generate("bytes", 600, flags=flags).json)
    for name, data in (files or {}).items():
        write_json(path / f"{name}.json", data)
    return path


@pytest.mark.parametrize(
    ("files", "bos", "eos"),
    [
        ({}, -1, ()),
        ({"tokenizer_config": {"bos_token": "<s>", "eos_token": "</s>"}}, 1, (2,)),
        ({"tokenizer_config": {"bos_token": None, "eos_token": {"content": "</s>"}}}, -1, (2,)),
        ({"generation_config": {"bos_token_id": 1, "eos_token_id": [0, 2]}}, 1, (0, 2)),
        (
            {"generation_config": {"eos_token_id": [0, 2]}, "tokenizer_config": {"eos_token": "</s>"}},
            -1,
            (2, 0),
        ),
        ({"generation_config": {"eos_token_id": 2}, "config": {"eos_token_id": 0}}, -1, (2,)),
        ({"config": {"bos_token_id": 1, "eos_token_id": 2}}, 1, (2,)),
        ({"config": {"text_config": {"eos_token_id": [2, 1]}}}, -1, (2, 1)),
    ],
)
def test_special_ids_of_a_folder(
    files: dict[str, Json], bos: int, eos: tuple[int, ...], tmp_path: Path
) -> None:
    convert_tokenizer(folder_with(tmp_path, files), tmp_path / "t.mlt")
    tokenizer = CTokenizer(tmp_path / "t.mlt")
    assert (tokenizer.bos, tuple(tokenizer.eos())) == (bos, eos)


def test_given_ids_replace_those_found(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"config": {"eos_token_id": 2}}, mlt.BOS)
    assert convert_tokenizer(folder, tmp_path / "t.mlt", eos_ids=[1, 0, 1]).eos_ids == (1, 0)
    assert CTokenizer(tmp_path / "t.mlt").encode("") == [1]
    with pytest.raises(FormatError, match="600 is not below 600"):
        convert_tokenizer(folder, tmp_path / "u.mlt", eos_ids=[600])


TEMPLATE = "{{ messages }}\r\n\n{# é #}"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", json.dumps({"chat_template": TEMPLATE})),
        (
            "tokenizer_config.json",
            json.dumps(
                {
                    "chat_template": [
                        {"name": "tool", "template": "x"},
                        {"name": "default", "template": TEMPLATE},
                    ]
                }
            ),
        ),
        ("chat_template.json", json.dumps({"chat_template": TEMPLATE})),
        ("chat_template.jinja", TEMPLATE),
    ],
)
def test_chat_template_goes_beside_the_tokenizer(name: str, content: str, tmp_path: Path) -> None:
    (folder_with(tmp_path) / name).write_bytes(content.encode())
    convert_tokenizer(tmp_path, tmp_path / "model.mlt")
    assert (tmp_path / "model.jinja").read_bytes() == TEMPLATE.encode()


def test_no_template_no_file(tmp_path: Path) -> None:
    convert_tokenizer(folder_with(tmp_path), tmp_path / "model.mlt")
    assert not (tmp_path / "model.jinja").exists()


def test_bad_sources(tmp_path: Path) -> None:
    def refuse(error: type[Exception], word: str, source: Path, **options: Any) -> None:
        with pytest.raises(error, match=word):
            convert_tokenizer(source, tmp_path / "t.mlt", **options)
        assert not (tmp_path / "t.mlt").exists()

    empty = tmp_path / "empty"
    empty.mkdir()
    refuse(FormatError, "no tokenizer.json", empty)
    (empty / "tokenizer.model").write_bytes(b"")
    refuse(FormatError, "tokenizer.model is not read", empty)
    refuse(AccessError, "cannot read", tmp_path / "absent.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    refuse(FormatError, "not JSON", broken)
    refuse(FormatError, "JSON object", write_json(broken, []))
    broken.write_bytes(b"GGUF\3\0\0\0" + b"\xff" * 40)
    refuse(FormatError, "not a GGUF file", broken)
    refuse(ShapeError, "599", folder_with(tmp_path), vocab=599)
    with pytest.raises(AccessError, match="cannot write"):
        convert_tokenizer(folder_with(tmp_path), tmp_path / "no" / "t.mlt")


def test_command_line(tmp_path: Path) -> None:
    folder, target = folder_with(tmp_path), tmp_path / "t.mlt"
    done = CliRunner().invoke(tool.main, [str(folder), str(target), "--eos", "2", "--eos", "0"])
    assert done.exit_code == 0 and CTokenizer(target).eos() == [2, 0]
    assert CliRunner().invoke(tool.main, [str(tmp_path / "x"), str(target)]).exit_code == 4
    made = CliRunner().invoke(gen_tokenizer.main, ["bytes", str(target), "--vocab", "300"])
    assert made.exit_code == 0 and CTokenizer(target).vocab == 300
    assert (
        from_json(json.loads((tmp_path / "t.tokenizer.json").read_text()), "x").tokens
        == mlt.read(target).tokens
    )
    assert CliRunner().invoke(gen_tokenizer.main, ["bytes", str(target), "--vocab", "9"]).exit_code == 2
    with pytest.raises(UsageError):
        generate("sentencepiece", 600, flags=mlt.GPT2)


# ---- GGUF ----


def write_gguf(path: Path, values: Json) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    adders: dict[type, Callable[[str, Any], None]] = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for name, value in values.items():
        adders[type(value)](f"tokenizer.{name}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_smollm2_from_a_gguf_file(tmp_path: Path) -> None:
    source = write_gguf(tmp_path / "m.gguf", {**smollm2_values(), "chat_template": TEMPLATE})
    converted = convert_tokenizer(source, tmp_path / "m.mlt", vocab=49152)
    assert converted.pack() == smollm2().pack()
    assert converted.flags == mlt.SPLIT_DIGITS | mlt.GPT2
    assert converted.eos_ids == (2, 0)  # <|im_end|> by its id, <|endoftext|> by its name
    assert (tmp_path / "m.jinja").read_bytes() == TEMPLATE.encode()
    tokenizer = CTokenizer(tmp_path / "m.mlt")
    for case in load("smollm2_cases.json.gz")["cases"][:40]:
        assert tokenizer.encode(case["text"]) == case["ids"]


def test_flags_and_ids_from_the_metadata() -> None:
    for pre, flags in PRE_FLAGS.items():
        values = {**smollm2_values(), "ggml.pre": pre}
        values.pop("ggml.add_bos_token")
        assert from_gguf(values, "x").flags == flags | (mlt.BOS if "llama" in pre else 0)
    more = {**smollm2_values(), "ggml.add_bos_token": True, "ggml.eot_token_id": 5}
    assert from_gguf(more, "x").flags & mlt.BOS
    assert from_gguf(more, "x").eos_ids == (2, 5, 0)


def sentencepiece_values(scores: list[float], tokens: list[mlt.Token]) -> Json:
    kinds = {mlt.NORMAL: 1, mlt.ADDED: 3, mlt.BYTE: 6}
    texts = [f"<0x{t.data[0]:02X}>" if t.attr == mlt.BYTE else t.data.decode() for t in tokens]
    return {
        "ggml.model": "llama",
        "ggml.tokens": texts,
        "ggml.token_type": [kinds[token.attr] for token in tokens],
        "ggml.scores": scores,
        "ggml.bos_token_id": 1,
        "ggml.eos_token_id": 2,
    }


def test_sentencepiece_scores_become_merges() -> None:
    tokens = generate("sentencepiece", 700).mlt.tokens
    values = sentencepiece_values([float(-i) for i in range(len(tokens))], tokens)
    converted = from_gguf(values, "x")
    assert converted.tokens == tokens
    assert (converted.bos, converted.eos_ids, converted.flags) == (1, (2,), mlt.BOS)
    merged = converted.merges[:, 2].tolist()
    assert merged == sorted(merged)  # the best score is the lowest id here
    normal = {token.data: i for i, token in enumerate(tokens) if token.attr == mlt.NORMAL}
    pairs = sum(
        data[:cut] in normal and data[cut:] in normal for data in normal for cut in range(1, len(data))
    )
    assert len(merged) == pairs


def test_equal_scores_and_several_pairs_of_one_token() -> None:
    ids = {"a": 0, "b": 1, "ab": 2, "aba": 3, "ba": 4, "abab": 5}
    merges = merges_of_scores(ids, [0.0, 0.0, -1.0, -1.0, -2.0, -0.5])
    expected = [(2, 2, 5), (3, 1, 5), (0, 1, 2), (0, 4, 3), (2, 0, 3), (1, 0, 4)]
    assert [tuple(row) for row in merges.tolist()] == expected


@pytest.mark.parametrize(
    ("sentence", "change"),
    [
        ("tokenizer.ggml.model 'bert'", {"ggml.model": "bert"}),
        ("no vocabulary", {"ggml.model": None}),
        ("tokenizer.ggml.pre 'tekken' is not one", {"ggml.pre": "tekken"}),
        ("tokenizer.ggml.pre None", {"ggml.pre": None}),
        ("token_type has 1 entries", {"ggml.token_type": [1]}),
        ("add_eos_token", {"ggml.add_eos_token": True}),
        ("merge 'x' names", {"ggml.merges": ["x"]}),
        ("scores has 0 entries", {"ggml.model": "llama", "ggml.add_space_prefix": True}),
        (
            "remove_extra_whitespaces",
            {"ggml.model": "llama", "ggml.add_space_prefix": True, "ggml.remove_extra_whitespaces": True},
        ),
        (
            "byte token 0 is '<|endoftext|>'",
            {
                "ggml.model": "llama",
                "ggml.add_space_prefix": True,
                "ggml.scores": [0.0] * 49152,
                "ggml.token_type": [6] * 49152,
            },
        ),
    ],
)
def test_gguf_vocabularies_that_are_refused(sentence: str, change: Json) -> None:
    with pytest.raises(FormatError) as caught:
        from_gguf({**smollm2_values(), **change}, "m.gguf")
    assert sentence in str(caught.value) and str(caught.value).startswith("m.gguf: ")


# ---- The writer ----


def test_writer_refuses_what_the_reader_would(tmp_path: Path) -> None:
    good = generate("bytes", 300).mlt
    changes: tuple[dict[str, Any], ...] = (
        {"kind": 3},
        {"tokens": []},
        {"flags": 512},
        {"flags": mlt.NO_PREFIX},
        {"flags": mlt.PREFIX_ONCE},
        {"flags": mlt.BOS, "bos": -1},
        {"bos": 300},
        {"eos_ids": (300,)},
        {"eos_ids": (2,) * 5000},
        {"tokens": [*good.tokens[:-1], mlt.Token(b"", mlt.ADDED)]},
        {"merges": np.array([[0, 1, 300]], np.uint32)},
        {"merges": np.array([[3, 4, 5]], np.uint32)},
        {"merges": np.concatenate([good.merges, good.merges[:1]])},
    )
    for change in changes:
        with pytest.raises(FormatError):
            mlt.write(tmp_path / "t.mlt", mlt.Mlt(**{**vars(good), **change}))
        assert list(tmp_path.iterdir()) == []

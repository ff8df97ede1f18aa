"""Chat templates: what they can use, and that what is wrong with one is said at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from krafla.runtime.model import Model
from krafla.tools import mlt
from krafla.tools.chat_template import ChatTemplate
from krafla.tools.convert_tokenizer import convert_tokenizer
from krafla.tools.errors import FormatError
from tests.toys import tokenizer, toy

HI = [{"role": "user", "content": "Hi"}]


def test_what_templates_use() -> None:
    template = ChatTemplate(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'x' %}{% continue %}{% endif %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{{ eos_token }}"
        "{{ tools | tojson(indent=1) }}{% if add_generation_prompt %}>{% endif %}{{ strftime_now('%Y')[0] }}",
        "<s>",
        "</s>",
    )
    assert template.render([{"role": "x", "content": "no"}, *HI], tools=["é"]) == '<s>Hi</s>[\n "é"\n]>2'
    assert template.variables >= {"tools", "messages"}


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in %}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[7].content.x }}",
        "{{ raise_exception('no') }}",
        "{{ 1 // 0 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages | nothing }}",
        "",
    ],
)
def test_broken_templates_are_named(source: str) -> None:
    with pytest.raises(
        FormatError, match=r"^m\.gguf: the chat template (cannot be (compiled|rendered)|makes nothing)"
    ):
        ChatTemplate(source, where="m.gguf").check()


def test_a_broken_template_is_not_converted(tmp_path: Path) -> None:
    data = {
        "model": {"type": "BPE", "vocab": {chr(33 + i): i for i in range(90)}, "merges": []},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].nothing.at.all }}")
    with pytest.raises(FormatError, match="the chat template cannot be rendered"):
        convert_tokenizer(tmp_path, tmp_path / "m.mlt")
    assert not (tmp_path / "m.mlt").exists()


def test_a_model_says_what_is_wrong(tmp_path: Path) -> None:
    path = toy(tmp_path)
    path.with_suffix(".jinja").write_text("{% if %}")
    with (
        Model.load(path) as model,
        pytest.raises(FormatError, match=r"^toy\.mlb: the chat template cannot be compiled"),
    ):
        model.chat_ids(HI)


def test_special_texts() -> None:
    assert tokenizer().special_texts() == ("", "<|stop|>")
    assert mlt.Mlt(mlt.BYTE_LEVEL, [mlt.Token(b"a")], tokenizer().merges).special_texts() == ("", "")

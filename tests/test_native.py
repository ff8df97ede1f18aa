"""ml_run, ml_bench and test_kernels on this machine: flags, errors, the model inside the executable."""

from __future__ import annotations

import json
import platform as machine
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from krafla import Model
from krafla.runtime import bundle, cmd_build, cmd_run, crossbuild
from krafla.runtime.verify import MODELS
from krafla.tools import mlt
from tests import cross, native
from tests.toys import tokenizer, toy

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(
        sys.platform != "linux" or machine.machine() != "x86_64", reason="this machine lacks x86-64 Linux"
    ),
]
TARGET, ISA = "x86_64-linux", "sse2"


def tool(name: str, *arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(cross.program(TARGET, ISA, name)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=text, check=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with a tokenizer beside it."""
    return toy(tmp_path_factory.mktemp("native"))


def expected(model: Path, prompt: str, **options: object) -> str:
    with Model.load(model, "sse2", threads=1) as loaded:
        return "".join(loaded.generate(prompt, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("prompt", ["hello", "ab ab", "\u00e9\u4f60\U0001f600"])
def test_greedy_text_is_that_of_krafla_run(model: Path, prompt: str) -> None:
    for extra in ([], ["--no-pack"], ["-t", "2", "-b", "1"]):
        done = tool("ml_run", "-m", model, prompt, "-n", 40, *extra)
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected(model, prompt, max_tokens=40) + "\n"
        assert "tokens at" in done.stderr


def test_added_tokens_that_are_text_are_shown(tmp_path: Path) -> None:
    """Gemma's tags: the answer's token is made one, then an end of a turn, which is not shown."""
    path = toy(tmp_path)
    with Model.load(path, "sse2") as loaded:
        assert loaded.tokenizer
        ids = loaded.tokenizer.encode("hello")
        first = int(np.argmax(loaded.logits(ids)[-1]))
    own = tokenizer()
    own.tokens[first] = mlt.Token(b"</table>", mlt.ADDED)
    mlt.write(path.with_suffix(".mlt"), own)
    done = tool("ml_run", "-m", path, "-n", 1, "-q", "hello")
    assert done.stdout == expected(path, "hello", max_tokens=1) + "\n" == "</table>\n"
    own.tokens[first] = mlt.Token(b"<|end|>", mlt.ADDED)
    mlt.write(path.with_suffix(".mlt"), own)
    assert tool("ml_run", "-m", path, "-n", 1, "-q", "hello").stdout == "\n"


def test_sampled_text_is_that_of_krafla_run(model: Path) -> None:
    flags = ["--temp", 0.9, "--top-k", 50, "--top-p", 0.9, "--min-p", 0.01, "--seed", 7]
    options = {"temperature": 0.9, "top_k": 50, "top_p": 0.9, "min_p": 0.01, "seed": 7}
    done = tool("ml_run", "-m", model, "-n", 40, "-q", *flags, text="hello")
    assert done.stdout == expected(model, "hello", max_tokens=40, **options) + "\n"
    assert not done.stderr


def test_chat_text_goes_around_the_prompt(model: Path, tmp_path: Path) -> None:
    chat = tmp_path / "some.chat"
    chat.write_text("ab {prompt} ba")
    done = tool("ml_run", "-m", model, "-n", 20, "--chat", chat, "cd")
    with Model.load(model, "sse2", threads=1) as loaded:
        ids = loaded.encode("ab cd ba", bos=False)
        assert done.stdout == "".join(loaded.generate(ids, max_tokens=20)) + "\n"
    raw = tool("ml_run", "-m", model, "-n", 20, "--chat", chat, "--raw", "cd")
    assert raw.stdout == expected(model, "cd", max_tokens=20) + "\n"
    chat.write_text("no place")
    bad = tool("ml_run", "-m", model, "--chat", chat, "cd")
    assert bad.returncode == 5 and "{prompt}, is missing" in bad.stderr


def test_system_message_has_a_place_of_its_own(model: Path, tmp_path: Path) -> None:
    """The chat text's places, in any order; what stands in the messages is text."""
    chat = tmp_path / "some.chat"
    chat.write_text("a {system} b {prompt} c {prompt} {system}")
    flags = ["-m", model, "-n", 20, "--chat", chat]
    done = tool("ml_run", *flags, "--system", "be {prompt}", "cd {system}")
    with Model.load(model, "sse2", threads=1) as loaded:
        ids = loaded.encode("a be {prompt} b cd {system} c {prompt} {system}", bos=False)
        assert done.stdout == "".join(loaded.generate(ids, max_tokens=20)) + "\n", done.stderr
    without = tool("ml_run", *flags, "cd")
    assert without.returncode == 2 and "give --system" in without.stderr
    chat.write_text("{prompt}")
    other = tool("ml_run", *flags, "--system", "be", "cd")
    assert other.returncode == 5 and "{system}, is missing" in other.stderr


def test_json_is_that_of_krafla_run(model: Path) -> None:
    """The same keys and values; text with quotes, control characters and broken UTF-8 survives."""
    flags = ["-m", str(model), "hello", "-n", "60", "--temp", "3", "--seed", "5", "-t", "2", "--json", "-q"]
    done = tool("ml_run", *flags)
    found = json.loads(done.stdout)
    assert not done.stderr and done.stdout.count("\n") == 1
    wanted = json.loads(CliRunner().invoke(cmd_run.command, [*flags, "--isa", "sse2"]).stdout)
    assert list(found) == list(wanted)
    seconds = {name for name in found if name.endswith("_seconds")}
    assert {k: v for k, v in found.items() if k not in seconds} == {
        k: v for k, v in wanted.items() if k not in seconds
    }
    assert all(0 <= found[name] < 100 for name in seconds)
    assert found["finish"] == "length" and any(c in found["text"] for c in '"\\\n\x01\x02\x03')
    stopped = json.loads(tool("ml_run", *flags, "-c", "16").stdout)
    assert stopped["finish"] == "context" and stopped["prompt_tokens"] + stopped["tokens"] == 17


def test_importance_matrix_is_that_of_krafla_run(model: Path, tmp_path: Path) -> None:
    files = [tmp_path / "c.mli", tmp_path / "python.mli"]
    flags = ["-m", str(model), "hello", "-n", "9", "-q", "-t", "1"]
    assert tool("ml_run", *flags, "--imatrix", files[0]).returncode == 0
    CliRunner().invoke(cmd_run.command, [*flags, "--isa", "sse2", "--imatrix", str(files[1])])
    assert files[0].read_bytes() == files[1].read_bytes()
    bad = tool("ml_run", *flags, "--imatrix", "/nowhere/x.mli")
    assert bad.returncode == 4 and "/nowhere/x.mli: cannot" in bad.stderr


def test_flags_are_those_of_krafla_run() -> None:
    """Every flag of `krafla run` is known, and in --help, except those of speculation, which is Python's."""
    text = tool("ml_run", "--help").stdout
    for option in cmd_run.command.params:
        for name in set(option.opts) - {"--speculate", "--draft"} if isinstance(option, click.Option) else ():
            assert re.search(rf"(^|[ ,]){name}\b", text, re.MULTILINE), name
            unknown = "no such option" in tool("ml_run", name).stderr
            assert not unknown, name


def test_values_after_an_equals_sign(model: Path) -> None:
    done = tool("ml_run", f"--model={model}", "--tokens=5", "--isa=sse2", "-q", "hello")
    assert done.stdout == expected(model, "hello", max_tokens=5) + "\n"


def test_options_of_the_other_program() -> None:
    for name, flag in (("ml_run", "--prompt-tokens"), ("ml_bench", "--temp"), ("ml_bench", "--json")):
        done = tool(name, flag, "1")
        assert done.returncode == 2 and f"no such option: {flag}" in done.stderr
    done = tool("ml_bench", "hello")
    assert done.returncode == 2 and "it takes no prompt: hello" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--temp"], 2, "a value is missing after --temp"),
        (["--temp", "hot"], 2, "--temp is hot"),
        (["--top-p", "0"], 2, "--top-p is 0"),
        (["-n", "1.5"], 2, "--tokens is 1.5"),
        (["--seed", "-1"], 2, "--seed is -1"),
        (["--kv", "f8"], 2, "--kv is f8"),
        (["--wat"], 2, "no such option: --wat"),
        (["--json=1", "a"], 2, "a value is given after --json"),
        (["--isa", "avx2", "a"], 2, "--isa is avx2, this is the sse2 build"),
        (["--system", "b", "--raw", "a"], 2, "--system needs the chat text"),
        (["-m", "MODEL", "--system", "b", "a"], 2, "there is no chat text with a place for it"),
        (["a", "b"], 2, "there is more than one prompt: b"),
        (["a"], 2, "there is no model"),
        (["-m", "/nowhere/x.mlb", "a"], 4, "/nowhere/x.mlb: cannot open it"),
        (["-m", "/dev/null", "a"], 4, "not a regular file"),
        (["-m", "MODEL", "-c", "9999", "a"], 2, "context is 9999"),
        (["-m", "MODEL", "--tokenizer", "/nowhere/y.mlt", "a"], 4, "/nowhere/y.mlt: cannot open it"),
        (["-m", "MODEL", "-c", "4", "hello hello hello hello"], 2, "the context holds 4"),
        (["-m", "MODEL", "--logits-hash", "1,x"], 2, "--logits-hash is 1,x"),
        (["-m", "MODEL", "--logits-hash", "1,999999"], 2, "token is 999999"),
    ],
)
def test_mistakes(model: Path, arguments: Sequence[str], code: int, words: str) -> None:
    done = tool("ml_run", *(str(model) if word == "MODEL" else word for word in arguments))
    assert done.returncode == code, done
    assert words in done.stderr and done.stderr.count("\n") == 1
    assert not done.stdout


def test_hash_does_not_depend_on_threads_batch_or_packing(model: Path) -> None:
    base = ["-m", model, "--logits-hash", ",".join(map(str, range(90)))]
    hashes = {
        tool("ml_run", *base, *extra).stdout
        for extra in (["-t", 1], ["-t", 3], ["-b", 1], ["-b", 7], ["--no-pack"])
    }
    assert len(hashes) == 1 and len(hashes.pop()) == 17


def test_help() -> None:
    for name in ("ml_run", "ml_bench"):
        done = tool(name, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: {name}")
    assert tool("test_kernels", "no_such_op").returncode == 2


def test_bench_begins_with_the_bindings(model: Path) -> None:
    done = tool("ml_bench", "-m", model, "-p", 16, "-n", 4, "-t", 1)
    lines = done.stdout.splitlines()
    assert lines[0] == "# sse2, class U (unfused multiply-add)"
    assert "ml_k_add_sse2" in done.stdout
    assert "prompt 16 tokens at" in lines[-1] and "4 tokens at" in lines[-1]


def test_kernels_against_their_twins() -> None:
    done = tool("test_kernels")
    assert done.returncode == 0 and "FAIL" not in done.stdout
    assert re.search(r"^(\d\d) of \1 ops equal", done.stdout, re.MULTILINE)


def test_a_wrong_kernel_is_found(tmp_path: Path) -> None:
    """test_kernels can fail: an add that forgets its last element, linked in place of the right one."""
    build = cross.built(TARGET, ISA)
    link = next(link for link in build.links if link.name == "test_kernels")
    right = next(o for o in link.objects if o.source.parts[-2:] == ("sse2", "add.c"))
    text = right.source.read_text().replace("int n)\n{", "int n)\n{\n    n -= n > 100;", 1)
    wrong = crossbuild.Object(native.write_source("add.c", text), right.triple, right.mcpu, right.flags)
    broken = crossbuild.Link(
        "test_kernels",
        link.triple,
        link.mcpu,
        tuple(wrong if o is right else o for o in link.objects),
        link.flags,
    )
    wrong.make()
    broken.make()
    broken.path.chmod(0o755)
    done = subprocess.run([str(broken.path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAIL add case 8 plain: y[1024]" in done.stdout and done.stdout.count("FAILED") == 1


# --- Hand-written kernels ---------------------------------------------------------------------------------


def test_hand_written_add_takes_the_place_of_the_generated_one() -> None:
    build = cross.built(TARGET, ISA, cross.PRODUCTS, asm=True)
    assert build.overrides == ("sse2/add.S",)
    sources = [o.source.name for o in build.links[0].objects if "sse2" in o.source.parts]
    assert "add.S" in sources and "add.c" not in sources
    folder = cross.folder(asm=True) / TARGET / ISA
    assert json.loads((folder / "manifest.json").read_text())["overrides"] == ["sse2/add.S"]
    done = subprocess.run([str(folder / "test_kernels")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    plain, by_hand = tool("test_kernels", "add").stdout, done.stdout
    assert plain.splitlines()[-2] in by_hand  # the same hash of outputs


def test_without_asm_nothing_is_overridden() -> None:
    assert cross.built(TARGET, ISA).overrides == ()


# --- One file that is a model -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def single(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    template = model.with_suffix(".jinja")
    template.write_text(
        "{% for m in messages %}{{ 'ab' if m.role == 'user' else 'sy' }} {{ m.content }} {% endfor %}ba"
    )
    out = tmp_path_factory.mktemp("dist")
    try:
        assert (
            cmd_build.call(["--target", TARGET, "--isa", ISA, "--model", str(model), "--out", str(out), "-q"])
            == 0
        )
    finally:
        template.unlink()
    return out / TARGET / ISA / "ml_run_toy"


def test_single_file_answers(single: Path, model: Path, tmp_path: Path) -> None:
    """Copied elsewhere and started without the model at hand; the same bits as with loose files."""
    moved = tmp_path / "alone"
    moved.write_bytes(single.read_bytes())
    moved.chmod(0o755)
    done = subprocess.run(
        [str(moved), "cd", "-n", "20"], capture_output=True, text=True, check=False, cwd="/"
    )
    with Model.load(model, "sse2", threads=1) as loaded:
        wanted = "".join(loaded.generate(loaded.encode("ab cd ba", bos=False), max_tokens=20))
    assert (done.returncode, done.stdout) == (0, wanted + "\n"), done.stderr
    done = subprocess.run(
        [str(moved), "cd", "-n", "20", "--system", "ef"], capture_output=True, text=True, check=False
    )
    with Model.load(model, "sse2", threads=1) as loaded:
        wanted = "".join(loaded.generate(loaded.encode("sy ef ab cd ba", bos=False), max_tokens=20))
    assert (done.returncode, done.stdout) == (0, wanted + "\n"), done.stderr
    hashed = subprocess.run(
        [str(moved), "--logits-hash", "1,2,3"], capture_output=True, text=True, check=True
    )
    assert hashed.stdout == tool("ml_run", "-m", model, "--logits-hash", "1,2,3").stdout
    packed = subprocess.run(
        [str(moved), "cd", "-n", "3", "--pack-cache"], capture_output=True, text=True, check=True
    )
    assert (tmp_path / "alone.pk4").is_file(), packed.stderr


def test_single_file_is_checked(single: Path, tmp_path: Path) -> None:
    data = bytearray(single.read_bytes())
    members = int.from_bytes(data[-16:-12], "little")
    directory = len(data) - 16 - 56 * members
    inside = int.from_bytes(data[directory + 32 : directory + 40], "little")
    assert members == 4 and inside % 65536 == 0
    for at, words in (
        (inside + 1000, "::model.mlb: damaged"),
        (directory + 3, "the directory of the files inside"),
    ):
        copy = data.copy()
        copy[at] ^= 1
        path = tmp_path / f"damaged{at}"
        path.write_bytes(copy)
        path.chmod(0o755)
        done = subprocess.run([str(path), "cd"], capture_output=True, text=True, check=False)
        assert done.returncode == 5 and words in done.stderr, done
    path.write_bytes(data[:-1])
    done = subprocess.run([str(path), "cd"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "there is no model" in done.stderr


def test_chat_text() -> None:
    template = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}{{ eos_token }}"
    assert bundle.chat_text(template, "B", "E") == "B<user>{prompt}E"
    assert bundle.chat_text(template, "B", "E", ("system", "user")) == "B<system>{system}<user>{prompt}E"
    with pytest.raises(bundle.FormatError, match="shows the user message 0 times"):
        bundle.chat_text("nothing", "", "")
    assert bundle.chat_text("{{ strftime_now('%Y') }} {{ messages[0].content }}", "", "") == "2025 {prompt}"


def test_models_of_the_table_are_small() -> None:
    assert all(header.vocab * header.dim < 2**16 for header in MODELS.values())

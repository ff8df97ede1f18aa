"""`krafla chat`: in a pipe, in a real terminal (tmux), and what a conversation keeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from krafla.runtime import chat_commands, cli, conversation, lines, markdown
from krafla.runtime.conversation import Conversation, Settings
from krafla.runtime.model import Model
from krafla.tools import mlt
from krafla.tools.errors import FormatError, UsageError
from krafla.tools.gen_random import write_random
from tests.models import header
from tests.scripted_chat import REPLIES
from tests.terminal import COLOUR, Terminal
from tests.toys import TEMPLATE, tokenizer

ROOT = Path(__file__).resolve().parent.parent
CHAT = [sys.executable, "-m", "tests.scripted_chat", "chat"]


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random model with a chat template and a context of 2048 tokens, which are bytes."""
    path = tmp_path_factory.mktemp("chatty") / "toy.mlb"
    write_random(path, header("llama", max_seq=2048), 0)
    mlt.write(path.with_suffix(".mlt"), tokenizer())
    path.with_suffix(".jinja").write_text(TEMPLATE, encoding="utf-8")
    return str(path)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own."""
    monkeypatch.setenv("KRAFLA_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


# --- In a pipe ---------------------------------------------------------------------------------------------


def pipe(chatty: str, text: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    command = [*CHAT, "-m", chatty, *options]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=False, cwd=ROOT)


def test_lines_in_answers_out(chatty: str, data: Path) -> None:
    done = pipe(chatty, 'hello\r\n\n one \\\ntwo\n"""three\n\n  four"""\n//slash\nmarkdown\n', "-q")
    said = ["hello", "one \ntwo", "three\n\n  four", "/slash"]
    assert done.stdout.decode() == "".join(f"you said: {text!r}\n" for text in said) + REPLIES["markdown"]
    assert (done.returncode, done.stderr) == (0, b"")
    assert not data.exists()  # neither history nor conversation


def test_notices_and_commands_go_to_standard_error(chatty: str, data: Path) -> None:
    done = pipe(chatty, "/set temp 0.5\nhi\n/stats\n/exit\nnever asked\n")
    assert done.stdout == b"you said: 'hi'\n"
    assert b"temp 0.5" in done.stderr
    assert b"toy.mlb takes at most" in done.stderr
    assert b"1 turns" in done.stderr


def test_json_lines(chatty: str, data: Path) -> None:
    done = pipe(chatty, "hello\nhow are you\n", "--json", "-q", "--seed", "5")
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["message"], first["text"], first["finish"]) == ("hello", "you said: 'hello'", "stop")
    assert (first["reused_tokens"], first["seed"], first["context"]) == (0, 5, 2048)
    # The second prompt is the first one, the answer, and what is new: only that was read.
    assert second["reused_tokens"] == first["used"] > first["prompt_tokens"]
    assert second["prompt_tokens"] - second["reused_tokens"] == len(
        "?" + "?user\nhow are you?" + "?assistant\n"
    )


def test_errors_end_a_pipe(chatty: str, data: Path) -> None:
    done = pipe(chatty, "/nonsense\nhello\n", "-q")
    assert (done.returncode, done.stdout) == (2, b"")
    assert (
        done.stderr
        == b"krafla: no command /nonsense; /help lists them, and // begins a message with a slash\n"
    )
    done = pipe(chatty, "x" * 2500 + "\n", "-q")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"krafla: the message is too long: ")


def test_a_model_without_a_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.toys import toy

    assert cli.call(["chat", "-q", "-m", str(toy(tmp_path))]) == 2
    assert "toy.mlb: has no chat template, so it cannot chat" in capsys.readouterr().err


def test_options_that_exclude_each_other(chatty: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["chat", "-m", chatty, "--continue", "--load", "x"]) == 2
    assert cli.call(["chat", "-q", "-m", chatty, "--load", "x"]) == 2
    assert "no conversation is saved as x; there are: none yet" in capsys.readouterr().err
    assert cli.call(["chat", "-q", "-m", chatty, "--temp", "-1"]) == 2


# --- The conversation --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(chatty: str) -> Iterator[Model]:
    with Model.load(chatty, ctx=512) as opened:
        yield opened


def asked(talk: Conversation, text: str) -> str:
    return "".join(talk.ask(text))


def test_a_full_context_drops_the_oldest_turns(model: Model) -> None:
    told: list[str] = []
    talk = Conversation(model, Settings(max_tokens=20), system="system", announce=told.append)
    for turn in range(12):
        asked(talk, f"message {turn} " + "x" * 40)
        assert talk.used <= 512
    assert len(talk.messages) == 24  # what is dropped is still there to be saved
    assert talk.first > 0
    assert told
    assert told[0].startswith("the context is full: the oldest ")
    seen = model.decode(talk._ids())
    assert "system" in seen
    assert "message 0 " not in seen
    assert "message 11 " in seen
    # Room was made once for several turns, so that the next prompts could be read from memory.
    assert len(told) < 4


def test_a_message_that_never_fits(model: Model) -> None:
    talk = Conversation(model, Settings(max_tokens=5))
    asked(talk, "hello")
    before = list(talk.messages)
    with pytest.raises(UsageError, match=r"the message is too long: .* the context holds 512"):
        asked(talk, "x" * 600)
    assert talk.messages == before
    assert talk.first == 0


def test_an_answer_that_is_stopped_stays(model: Model) -> None:
    talk = Conversation(model, Settings(max_tokens=200))
    pieces = []
    for piece in talk.ask("hello"):
        pieces.append(piece)
        talk.stop()
    assert talk.last.finish == "interrupted"
    assert 0 < talk.last.tokens < 10
    assert [m["role"] for m in talk.messages] == ["user", "assistant"]
    assert talk.messages[1]["content"] == "".join(pieces)

    def stop(*_: object) -> None:
        talk.stop()

    assert list(talk.ask("x" * 300, stop)) == []  # while the prompt is read
    assert talk.last.finish == "interrupted"
    assert len(talk.messages) == 2


def test_the_same_answer_whether_or_not_memory_was_kept(model: Model, chatty: str) -> None:
    talk = Conversation(model, Settings(max_tokens=12))
    for text in ("one", "two", "three"):
        asked(talk, text)
    assert talk.last.reused_tokens > 0
    with Model.load(chatty, ctx=512) as fresh:
        again = Conversation(fresh, Settings(max_tokens=12))
        again.messages = talk.messages[:-2]
        assert asked(again, "three") == talk.messages[-1]["content"]
        assert again.last.reused_tokens == 0


def test_prefill_can_be_interrupted(model: Model) -> None:
    """What was read is kept, and nothing is believed to be there that is not."""
    ids = [i % 250 for i in range(400)]
    expected = list(model.generate(ids, 5))

    class EnoughError(Exception):
        pass

    def once(*_: object) -> None:
        raise EnoughError

    model.prefill([0])
    with pytest.raises(EnoughError):
        model.prefill(ids, once)
    assert model.prefill(ids) == 1 + model.config.batch
    assert model.prefill(ids) == len(ids)
    assert list(model.generate(ids, 5)) == expected


def test_commands(model: Model, data: Path) -> None:
    told: list[str] = []

    class Output:
        def tell(self, text: str) -> None:
            told.append(text)

    def do(line: str) -> str:
        told.clear()
        chat_commands.perform(talk, Output(), line)  # type: ignore[arg-type]
        return "\n".join(told)

    talk = Conversation(model, Settings(max_tokens=4))
    assert do("/system") == "no system message"
    assert do("/system Be brief.") == "system: Be brief."
    assert talk.system == "Be brief."
    assert do("/set seed 7").endswith("seed 7, max-tokens 4")
    assert do("/set top-p=0.5").startswith("temp 0, top-p 0.5,")
    assert do("/set seed default").endswith("seed -, max-tokens 4")
    asked(talk, "hello")
    assert "answer   4 tokens" in do("/stats")
    assert "ended by length" in do("/stats")
    assert do("/save one") == "saved as one"
    kept = list(talk.messages)
    do("/clear")
    assert talk.messages == []
    do("/system -")
    assert do("/load") == "saved: one"
    assert do("/load one") == "loaded one: 1 turns"
    assert (talk.messages, talk.system, talk.settings) == (
        kept,
        "Be brief.",
        Settings(max_tokens=4, top_p=0.5),
    )
    following = chat_commands.perform(talk, Output(), "/retry")  # type: ignore[arg-type]
    assert (following.ask, talk.messages) == ("hello", [])
    assert chat_commands.perform(talk, Output(), "/exit").leave  # type: ignore[arg-type]
    for name in chat_commands.COMMANDS:
        assert f"/{name}" in do("/help")
    for line, words in (
        ("/retry", "there is no answer yet"),
        ("/save", "/save takes a name"),
        ("/save ../x", "a conversation's name has"),
        ("/load none", "no conversation is saved as none; there are: one"),
        ("/set nonsense 1", "no setting nonsense, there are temp, top-p"),
        ("/set temp", "takes a value"),
        ("/set temp hot", "temp must be a number"),
        ("/set temp -1", "temperature is -1.0"),
        ("/set top-k 1.5", "top-k must be a whole number"),
        ("/set max-tokens 0", "max_tokens is 0"),
    ):
        with pytest.raises(UsageError, match=words):
            do(line)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"messages": [{"role": "user", "content": "x"}], "system": null, "settings": {}}',
        '{"messages": [], "system": 1, "settings": {}}',
        '{"messages": [], "system": null, "settings": {"temperature": -1}}',
        '{"messages": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "x"}], "system": null, '
        '"settings": {}}',
    ],
)
def test_damaged_conversations(model: Model, data: Path, text: str) -> None:
    chat_commands.place("bad").write_text(text, encoding="utf-8")
    talk = Conversation(model)
    with pytest.raises(FormatError, match=r"bad\.json: is not a saved conversation"):
        chat_commands.load(talk, "bad")
    assert talk.messages == []


def test_saved_conversations_are_private(model: Model, data: Path) -> None:
    path = chat_commands.place("mine")
    conversation.write(Conversation(model), path)
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0


def test_completion_of_commands(data: Path) -> None:
    chat_commands.place("trip").write_text("{}")
    assert chat_commands.complete("/s") == ["/system ", "/save ", "/set ", "/stats "]
    assert chat_commands.complete("/set to") == ["top-p", "top-k"]
    assert chat_commands.complete("/load t") == ["trip"]
    assert chat_commands.complete("hello t") == []
    assert chat_commands.complete("") == []


# --- Markdown ----------------------------------------------------------------------------------------------


def test_only_the_last_block_is_drawn_again() -> None:
    text = "# A\n\npara\nstill para\n\n- x\n- y\n\n```\ncode\n\n# not a heading\n```\nlast"
    cuts = [markdown.last_block(text[:end]) for end in range(len(text) + 1)]
    assert cuts == sorted(cuts)  # what is finished never comes back
    assert set(cuts) == {text.index(part) for part in ("# A", "para", "- x", "```")}
    assert markdown.last_block(text + "\n") == text.index("last")


def test_lines_of_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    def shown(text: str, **options: object) -> str:
        console = Console(width=40, force_terminal=True, color_system="standard", **options)  # type: ignore[arg-type]
        return "\n".join(markdown.rendered(text, console))

    assert shown("one\ntwo") == "one\ntwo"  # a model's line ends stay
    assert "<b>x</b> & <think>" in shown("<b>x</b> & <think>")
    assert "\x1b[1m" in shown("**bold**")
    assert "\x1b[36" in shown("`code`") or "\x1b[1;36" in shown("`code`")
    assert "[3" not in shown("`code` and [a](http://b)", no_color=True).replace("[3m", "")
    assert "http://b" in shown("[a](http://b)")


# --- In a terminal -----------------------------------------------------------------------------------------


@pytest.fixture
def terminal(chatty: str, data: Path) -> Iterator[list[Terminal]]:
    """Terminals that are closed at the end."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.close()


def start(opened: list[Terminal], chatty: str, *options: str, pause: float = 0, **more: str) -> Terminal:
    environment = {"SCRIPTED_PAUSE": str(pause), "KRAFLA_DATA": os.environ["KRAFLA_DATA"]} | more
    one = Terminal([*CHAT, "-m", chatty, *options], environment)
    opened.append(one)
    one.prompt()
    return one


def test_send(terminal: list[Terminal], chatty: str) -> None:
    one = start(terminal, chatty)
    one.keys("markdown", "Enter")
    screen = one.wait("tokens at")
    assert "> markdown\n" in screen
    assert "Title" in screen
    assert "# Title" not in screen
    assert " • one\n • two\n" in screen
    assert "Some bold text and code." in screen
    assert "[context █" in screen
    assert "\x1b[1mbold" in one.screen(colours=True)
    assert COLOUR.search(one.screen(colours=True))
    one.keys("escape", "Enter")
    assert "a\ufffd[31mb\ufffdc" in one.wait("[31mb")  # shown, not obeyed
    one.keys("/stats", "Enter")
    one.wait("2 turns")
    one.prompt()  # until then the terminal is not readline's, and the end of input would be lost
    one.keys("C-d")
    assert one.ended() == 0


def test_interrupt(terminal: list[Terminal], chatty: str) -> None:
    one = start(terminal, chatty, pause=0.02)
    one.keys("long", "Enter")
    one.wait("word5 ")
    one.keys("typed ahead")
    one.keys("C-c")
    screen = one.wait("stopped]")
    assert "word119" not in screen
    assert "^C" not in screen
    one.keys("hello", "Enter")  # Ctrl-C also threw away what was typed before it
    one.wait("you said: 'hello'")
    one.prompt()
    one.keys("C-c")
    assert "[ended" not in one.wait("Ctrl-C again or Ctrl-D leaves")
    one.prompt()
    one.keys("C-c")
    assert one.ended() == 0


def test_many_lines(terminal: list[Terminal], chatty: str) -> None:
    one = start(terminal, chatty)
    one.keys("one", "M-Enter", "two", "Enter")
    one.wait(r"you said: 'one\ntwo'")
    one.keys("three\\", "Enter", "four", "Enter")
    one.wait(r"you said: 'three\nfour'")
    one.keys('"""five', "Enter", 'six"""', "Enter")
    one.wait(r"you said: 'five\nsix'")
    one.paste("seven\neight\nnine")
    one.keys("Enter")
    one.wait(r"you said: 'seven\neight\nnine'")


def test_resize(terminal: list[Terminal], chatty: str) -> None:
    """Narrower and wider while an answer is drawn: each word is there once, and the prompt comes back."""
    one = start(terminal, chatty, pause=0.01)
    one.keys("long", "Enter")
    one.wait("word20 ")
    one.resize(40, 15)
    one.wait("word50 ")
    one.resize(100, 30)
    screen = one.wait("tokens at")
    words = [word for word in screen.split() if word.startswith("word")]
    assert words == [f"word{i}" for i in range(120)]
    one.keys("hello", "Enter")
    one.wait("you said: 'hello'")


def test_an_answer_longer_than_the_screen(terminal: list[Terminal], chatty: str) -> None:
    one = start(terminal, chatty)
    one.resize(30, 6)
    one.keys("long", "Enter")
    screen = one.wait("tokens at")
    words = [word for word in screen.split() if word.startswith("word")]
    assert words == [f"word{i}" for i in range(120)]


def test_history_and_conversation_of_the_last_session(
    terminal: list[Terminal], chatty: str, data: Path
) -> None:
    one = start(terminal, chatty)
    one.keys("first", "M-Enter", "second", "Enter")
    one.wait(r"you said: 'first\nsecond'")
    one.keys("/exit", "Enter")
    assert one.ended() == 0
    two = start(terminal, chatty, "--continue")
    assert "continuing after 1 turns" in two.screen()
    two.keys("Up", "Up", "Enter")
    two.wait(r"you said: 'first\nsecond'")
    two.keys("/stats", "Enter")
    two.wait("2 turns")
    two.keys("/ex", "Tab", "Enter")
    assert two.ended() == 0
    (data / "history").unlink()
    three = start(terminal, chatty, "--no-history")
    three.keys("secret", "Enter")
    three.wait("you said: 'secret'")
    assert not (data / "history").exists()
    assert "secret" not in (data / "chats" / "last.json").read_text(encoding="utf-8")


def test_a_data_folder_that_cannot_be_written(terminal: list[Terminal], chatty: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    one = start(terminal, chatty, KRAFLA_DATA=str(tmp_path / "file"))
    assert "nothing will be kept" in one.screen()
    one.keys("hello", "Enter")
    one.wait("you said: 'hello'")


def test_without_colours(terminal: list[Terminal], chatty: str) -> None:
    one = start(terminal, chatty, NO_COLOR="1")
    one.keys("markdown", "Enter")
    one.wait("tokens at")
    assert not COLOUR.search(one.screen(colours=True))
    two = start(terminal, chatty, "--plain")
    two.keys("markdown", "Enter")
    two.wait("tokens at")
    assert "# Title\nSome **bold** text" in two.screen()


# --- Lines -------------------------------------------------------------------------------------------------


def test_messages_of_lines() -> None:
    def messages(*given: str) -> list[str]:
        left = iter(given)
        return list(lines.messages(lambda more: next(left, None)))

    assert messages("a", "", " b ") == ["a", "b"]
    assert messages("a\\", "b\\", "c", "d") == ["a\nb\nc", "d"]
    assert messages('"""a', "", 'b"""', "c") == ["a\n\nb", "c"]
    assert messages('"""a"""') == ["a"]
    assert messages("a\\") == ["a\\"]
    assert messages('"""a', "b") == ["a\nb"]
    assert messages() == []


def test_the_history_file_is_cut(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "KEPT", 3)
    data.mkdir()
    path = data / "history"
    path.write_text("".join(f'"{i}"\n' for i in range(5)) + "damaged\n", encoding="utf-8")
    assert lines._history() == ["3", "4"]
    path.write_text("".join(f'"{i}"\n' for i in range(9)), encoding="utf-8")
    assert lines._history() == ["6", "7", "8"]
    assert path.read_text(encoding="utf-8") == '"6"\n"7"\n"8"\n'

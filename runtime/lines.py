"""Messages from whoever types or pipes them: several lines as one, history, completion."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from krafla.runtime import data
from krafla.tools.errors import access

if TYPE_CHECKING:
    from types import ModuleType

PROMPT, MORE = "> ", "… "
FENCE = '"""'
KEPT = 1000  # lines of history

#: The next line without its end, None when there are no more; True asks for the continuation of a message.
NextLine = Callable[[bool], "str | None"]


def messages(next_line: NextLine) -> Iterator[str]:
    '''Messages one by one: lines that end in a backslash, and lines between """ and """, are taken together.'''
    while (line := next_line(False)) is not None:
        parts = [line]
        if line.lstrip().startswith(FENCE):
            parts = [line.lstrip().removeprefix(FENCE)]
            while not parts[-1].rstrip().endswith(FENCE) and (line := next_line(True)) is not None:
                parts.append(line)
            parts[-1] = parts[-1].rstrip().removesuffix(FENCE)
        else:
            while parts[-1].endswith("\\") and (line := next_line(True)) is not None:
                parts[-1] = parts[-1][:-1]
                parts.append(line)
        text = "\n".join(parts).strip()
        if text:
            yield text


def piped(more: bool) -> str | None:
    """The next line of standard input, which nobody types."""
    line = sys.stdin.buffer.readline()
    return line.decode("utf-8", "replace").rstrip("\r\n") if line else None


class Typed:
    """Lines typed at a prompt: with the system's readline editing, history and completion, else without.

    readline is what every shell uses, so it works over any connection; Alt-Enter begins a new line in it, and
    pasted lines stay together. Windows consoles edit lines themselves.
    """

    def __init__(self, bold: bool, complete: Callable[[str], list[str]], keep: bool) -> None:
        self._readline = _readline()
        self._keep = keep
        self._prompt = f"\001\033[1m\002{PROMPT}\001\033[0m\002" if bold and self._readline else PROMPT
        if self._readline:
            self._set_up(self._readline, complete)

    def __call__(self, more: bool) -> str | None:
        """The next line."""
        try:
            return input(_encodable(MORE) if more else self._prompt)
        except EOFError:
            print()
            return None

    def remember(self, message: str) -> None:
        """Put a message into the history, and the file of it."""
        if not self._readline:
            return
        last = self._readline.get_current_history_length()
        if last and self._readline.get_history_item(last) == message:
            return
        self._readline.add_history(message)
        if self._keep:
            path = data.room() / "history"
            with access(path, "write"), path.open("a", encoding="utf-8") as file:
                path.chmod(0o600)
                file.write(json.dumps(message, ensure_ascii=False) + "\n")

    def _set_up(self, readline: ModuleType, complete: Callable[[str], list[str]]) -> None:
        def completion(_: str, state: int) -> str | None:
            found = complete(readline.get_line_buffer()[: readline.get_endidx()])
            return found[state] if state < len(found) else None

        readline.set_completer(completion)
        readline.set_completer_delims(" ")
        readline.set_auto_history(False)
        if "libedit" in (readline.__doc__ or ""):
            readline.parse_and_bind("bind ^I rl_complete")
        else:
            readline.parse_and_bind("tab: complete")
            readline.parse_and_bind(r'"\e\C-m": "\C-v\C-j"')
            readline.parse_and_bind("set enable-bracketed-paste on")  # Python switches it off
        readline.clear_history()
        if self._keep:
            for message in _history():
                readline.add_history(message)


@contextmanager
def silent_keys() -> Iterator[None]:
    """What is typed inside is kept for later, and not echoed into what is on the screen."""
    try:
        import termios
    except ImportError:  # Windows does not echo unless it is asked for a line
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(keyboard, termios.TCSANOW, silent)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline


def _encodable(text: str) -> str:
    """The text, in plain characters where standard output has no others."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return text.replace("…", ".")
    return text


def _history() -> list[str]:
    """What was typed in earlier sessions; the file is cut when it is twice as long as it should be."""
    path = data.root() / "history"
    if not path.is_file():
        return []
    with access(path, "read"):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) > 2 * KEPT:
        with access(path, "write"):
            path.write_text("".join(f"{line}\n" for line in lines[-KEPT:]), encoding="utf-8")
    return [message for line in lines[-KEPT:] if isinstance(message := _parsed(line), str)]


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None

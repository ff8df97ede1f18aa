"""A real terminal for tests: a tmux server with one window."""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLOUR = re.compile(r"\x1b\[[\d;]*(?<!\d)[349][0-8](?!\d)[\d;]*m")  # not bold, dim, italic or underlined
#: Runs a command and then shows its exit code; that of tmux is not always there.
WATCH = """trap : INT; "$@"; echo "[ended $?]"; exec sleep 600"""


class Terminal:
    """A tmux server with one window that runs a command."""

    def __init__(
        self, command: list[str], environment: dict[str, str], width: int = 80, height: int = 24
    ) -> None:
        self._name = f"krafla-{uuid.uuid4().hex[:12]}"
        size = ("-x", str(width), "-y", str(height))
        watched = ["sh", "-c", WATCH, "sh", *command]
        self._tmux("-f", os.devnull, "-u", "new-session", "-d", *size, *watched, environment=environment)

    def _tmux(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        command = ["tmux", "-L", self._name, *arguments]
        done = subprocess.run(
            command, capture_output=True, check=True, cwd=ROOT, env=os.environ | (environment or {})
        )
        return done.stdout.decode()

    def keys(self, *keys: str) -> None:
        """Named keys (Enter, C-c, M-Enter) or text."""
        for key in keys:
            named = key in ("Enter", "M-Enter", "Up", "Tab") or key.startswith("C-")
            self._tmux("send-keys", "-t", "0", *(() if named else ("-l",)), key)

    def paste(self, text: str) -> None:
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p", "-t", "0")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-t", "0", "-x", str(width), "-y", str(height))

    def screen(self, colours: bool = False) -> str:
        """Everything that is and was to be seen, wrapped lines joined, without blank lines."""
        options = ("-e",) if colours else ()
        text = self._tmux("capture-pane", "-p", "-J", "-S", "-", *options, "-t", "0")
        return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

    def wait(self, text: str, seconds: float = 60) -> str:
        """The screen as soon as it shows a text."""
        end = time.monotonic() + seconds
        while text not in (screen := self.screen()):
            assert time.monotonic() < end, f"no {text!r} in:\n{screen}"
            time.sleep(0.05)
        return screen

    def prompt(self) -> str:
        """The screen as soon as a message is waited for."""
        end = time.monotonic() + 60
        while not (screen := self.screen()).endswith("\n>"):
            assert time.monotonic() < end, f"no prompt in:\n{screen}"
            time.sleep(0.05)
        return screen

    def ended(self) -> int:
        """The exit code, once the command has ended."""
        screen = self.wait("[ended ")
        return int(screen.rpartition("[ended ")[2].partition("]")[0])

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._name, "kill-server"], capture_output=True, check=False)

"""`krafla chat` with a model that says what a script says: `python -m tests.scripted_chat ARGUMENTS`.

The engine computes as always; only the tokens that it picks are replaced, and each takes its time.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time

from krafla.runtime import cli
from krafla.runtime.model import Generation

PAUSE = float(os.environ.get("SCRIPTED_PAUSE", "0"))
REPLIES = {
    "markdown": "# Title\n\nSome **bold** text and `code`.\n\n- one\n- two\n\n```\nprint('hi')\n```\n",
    "long": " ".join(f"word{i}" for i in range(120)),
    "escape": "a\x1b[31mb\x07c",
    "unicode": "→ ✓ žlutý",
}
_real = Generation._next_token


def reply(prompt: str) -> str:
    """What is said to the last message of a prompt."""
    last = re.findall(r"<\|start\|>user\n(.*?)<\|end\|>", prompt, re.DOTALL)[-1]
    return REPLIES.get(last, f"you said: {last!r}")


def scripted(self: Generation, all_ids: list[int]) -> int | None:
    """The next byte of the reply."""
    token = _real(self, all_ids)
    if token is None and self.finish != "stop":
        return None
    self.finish = None
    time.sleep(PAUSE)
    tokenizer = self._model.tokenizer
    assert tokenizer
    data = reply(tokenizer.decode(self.prompt)).encode()
    if len(self.ids) == len(data):
        self.finish = "stop"
        return None
    return data[len(self.ids)]


if __name__ == "__main__":
    # Whoever starts the tests in the background may have made SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Generation._next_token = scripted  # type: ignore[method-assign]
    sys.argv[:] = ["krafla", *sys.argv[1:]]
    cli.main()

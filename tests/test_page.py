"""The web page in headless Chromium, against a server that says what each test wants (tests/page_server.py)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page_server import PROMPT_TOKENS, PageServer, Reply

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the page extra")
expect = sync_api.expect
Page = Any  # playwright's, which may be missing

ROOT = Path(__file__).resolve().parent.parent
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(os.environ.get("KRAFLA_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
ANSWER = ".message.assistant:last-child > .body"
MARKDOWN = """# Title

Some **bold**, *italic* and `code`, a [link](https://example.org/).

- one
  - inner
- two

```python
print("a very long line that does not fit into the width of a phone and so has to be scrolled sideways")
```

### Deeper

| name | a long heading of a column | another long heading of a column |
|:-----|---------------------------:|:--------------------------------:|
| a    | 1                          | x                                |

> quoted
"""
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # Nobody's pages but ours: the sandbox, which root cannot have, protects from nothing here.
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shared_server() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(shared_server: PageServer) -> Iterator[PageServer]:
    shared_server.reset()
    yield shared_server
    shared_server.release.set()


@pytest.fixture
def visit(browser: Any, server: PageServer) -> Iterator[Callable[..., Page]]:
    """Opens the page in a browser of its own. No page may ask another server, log an error, or break its policy."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def watch(page: Page) -> None:
        page.on("request", lambda request: check_origin(request.url))
        page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("console", check_console)

    def check_origin(url: str) -> None:
        if not url.startswith((server.url, "blob:" + server.url)):
            wrong.append(f"asked for {url}")

    def check_console(message: Any) -> None:
        # A status of 4xx or 5xx that a test asked for is logged by the browser itself.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            wrong.append(f"console: {message.text}")

    def open_page(path: str = "", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 760}, **options})
        context.set_default_timeout(10_000)
        context.on("page", watch)
        contexts.append(context)
        page = context.new_page()
        page.goto(server.url + path)
        expect(page.locator("#model")).to_have_text("test-model")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture
def page(visit: Callable[..., Page]) -> Page:
    return visit()


def ask(page: Page, text: str) -> None:
    page.fill("#input", text)
    page.keyboard.press("Enter")


def finished(page: Page) -> None:
    """Waits until nothing is being written."""
    expect(page.locator("#send")).to_have_attribute("aria-label", "Send")


def converse(page: Page, text: str) -> None:
    ask(page, text)
    finished(page)


def sent(server: PageServer, request: int = -1) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in server.asked[request]["messages"]]


# Asking


def test_an_answer_is_shown_while_it_comes(page: Page, server: PageServer) -> None:
    server.reply = Reply(["The ", "sky ", "is **blue**."], hold_after=2)
    ask(page, "Why?")
    expect(page.locator(ANSWER)).to_have_text("The sky")
    expect(page.locator(".stats")).to_contain_text("2 tokens")
    expect(page.locator("#send")).to_have_attribute("aria-label", "Stop")
    expect(page.locator("#input")).to_have_value("")
    expect(page.locator("#input")).to_be_focused()
    server.release.set()
    expect(page.locator(f"{ANSWER} strong")).to_have_text("blue")
    expect(page.locator(".stats")).to_have_text(
        re.compile(r"^3 tokens · [\d.]+ tokens/s · first after [\d.]+ s$")
    )
    expect(page.locator("#context")).to_have_attribute("aria-valuenow", str(PROMPT_TOKENS + 3))
    expect(page.locator("#context-text")).to_have_text("23 / 2,048")
    expect(page.locator("#title")).to_have_text("Why?")
    assert server.asked == [
        {
            "model": "test-model",
            "messages": [{"role": "user", "content": "Why?"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


def test_a_conversation_sends_what_was_said(page: Page, server: PageServer) -> None:
    converse(page, "one")
    converse(page, "two")
    assert sent(server) == [("user", "one"), ("assistant", "Hello, world."), ("user", "two")]


def test_an_example_is_asked(page: Page, server: PageServer) -> None:
    page.click("text=Why is the sky blue?")
    finished(page)
    assert sent(server) == [("user", "Why is the sky blue?")]


@pytest.mark.parametrize("how", ["escape", "button"])
def test_stop(page: Page, server: PageServer, how: str) -> None:
    server.reply = Reply(["so ", "far", "not this"], hold_after=2)
    ask(page, "Count")
    expect(page.locator(ANSWER)).to_have_text("so far")
    if how == "escape":
        page.keyboard.press("Escape")
    else:
        page.click("#send")
    expect(page.locator(".note")).to_have_text("Stopped.")
    expect(page.locator("#input")).to_be_focused()
    assert server.client_left.wait(5)
    server.reply = Reply(["more"])
    converse(page, "Go on")
    assert sent(server) == [("user", "Count"), ("assistant", "so far"), ("user", "Go on")]


def test_reload_keeps_what_came(page: Page, server: PageServer) -> None:
    server.reply = Reply(["came ", "already ", "not this"], hold_after=2)
    ask(page, "Count")
    expect(page.locator(ANSWER)).to_have_text("came already")
    page.fill("#input", "half a thou")
    page.reload()
    expect(page.locator(ANSWER)).to_have_text("came already")
    expect(page.locator(".message.user .body")).to_have_text("Count")
    expect(page.locator(".note")).to_have_text("Unfinished: this is what came.")
    expect(page.locator("#input")).to_have_value("half a thou")
    server.release.set()
    server.reply = Reply(["anew"])
    page.click("[aria-label='Answer again']")
    expect(page.locator(ANSWER)).to_have_text("anew")
    page.reload()
    expect(page.locator(ANSWER)).to_have_text("anew")
    expect(page.locator(".note")).to_be_hidden()


def test_another_conversation_while_one_answers(page: Page, server: PageServer) -> None:
    server.reply = Reply(["slow ", "answer"], hold_after=1)
    ask(page, "first")
    expect(page.locator(ANSWER)).to_have_text("slow")
    page.keyboard.press("Alt+n")
    server.reply = Reply(["quick"])
    converse(page, "second")
    expect(page.locator(ANSWER)).to_have_text("quick")
    expect(page.locator("#chats .busy")).to_have_count(1)
    server.release.set()
    expect(page.locator("#chats .busy")).to_have_count(0)
    page.click("#chats a:has-text('first')")
    expect(page.locator(ANSWER)).to_have_text("slow answer")


# Branches


def test_edit_an_earlier_question(page: Page, server: PageServer) -> None:
    server.reply = Reply(["old"])
    converse(page, "first")
    converse(page, "second")
    server.reply = Reply(["new"])
    page.locator(".message.user").first.hover()
    page.locator("[aria-label='Edit this question']").first.click()
    field = page.locator(".edit textarea")
    expect(field).to_be_focused()
    expect(field).to_have_value("first")
    field.fill("changed")
    field.press("Enter")
    finished(page)
    assert sent(server) == [("user", "changed")]
    assert page.locator(".message .body:visible").all_inner_texts() == ["changed", "new"]
    page.locator(".message.user").hover()
    page.click("[aria-label='Previous version']")
    assert page.locator(".message .body:visible").all_inner_texts() == ["first", "old", "second", "old"]
    expect(page.locator("[aria-label='Next version']")).to_be_focused()  # the other one has nowhere to go
    page.reload()
    expect(page.locator(".branches")).to_contain_text("1/2")


def test_leaving_an_edit_changes_nothing(page: Page, server: PageServer) -> None:
    converse(page, "question")
    page.keyboard.press("ArrowUp")
    page.keyboard.type("changed")
    page.keyboard.press("Escape")
    expect(page.locator(".message.user .body")).to_have_text("question")
    expect(page.locator("[aria-label='Edit this question']")).to_be_focused()
    assert len(server.asked) == 1


def test_answer_again(page: Page, server: PageServer) -> None:
    server.reply = Reply(["one"])
    converse(page, "question")
    server.reply = Reply(["another"])
    page.keyboard.press("Alt+r")
    expect(page.locator(ANSWER)).to_have_text("another")
    finished(page)
    # At the server's temperature of 0 the answer would be the same again.
    assert server.asked[1] == {**server.asked[0], "temperature": 0.7}
    page.click("[aria-label='Previous version']")
    expect(page.locator(ANSWER)).to_have_text("one")
    converse(page, "next")
    assert sent(server) == [("user", "question"), ("assistant", "one"), ("user", "next")]


# Settings


def test_settings_are_sent_and_kept(page: Page, server: PageServer) -> None:
    chosen = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 99, "seed": 7}
    page.click("#open-settings")
    for name, value in chosen.items():
        page.fill(f"#settings [name={name}]", str(value))
    page.fill("#settings [name=system]", "Be brief.")
    page.click("#settings button:has-text('Save')")
    expect(page.locator("#settings")).to_be_hidden()
    converse(page, "question")
    page.reload()
    page.keyboard.press("Alt+n")
    converse(page, "in another conversation")
    for request in server.asked:
        assert {name: request[name] for name in chosen} == chosen
        assert request["messages"][0] == {"role": "system", "content": "Be brief."}
    page.click("#open-settings")
    page.click("text=Clear all")
    page.click("#settings button:has-text('Save')")
    converse(page, "again")
    assert sorted(server.asked[-1]) == ["messages", "model", "stream", "stream_options"]
    assert server.asked[-1]["messages"][0]["role"] == "user"


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", "3"), ("top_p", "-1"), ("top_k", "2.5"), ("max_tokens", "0")]
)
def test_a_setting_out_of_its_limits_is_not_taken(
    page: Page, server: PageServer, name: str, value: str
) -> None:
    page.keyboard.press("Alt+s")
    page.fill(f"#settings [name={name}]", value)
    page.keyboard.press("Enter")
    expect(page.locator("#settings")).to_be_visible()
    assert page.evaluate(f"document.querySelector('#settings [name={name}]').validationMessage")
    page.keyboard.press("Escape")
    converse(page, "question")
    assert name not in server.asked[-1]


# Conversations


def test_rename_and_delete(page: Page) -> None:
    for name in ("first", "second"):
        page.keyboard.press("Alt+n")
        converse(page, name)
    page.click("[aria-label='Rename second']")
    page.keyboard.type("Renamed")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("Renamed")
    expect(page.locator("[aria-label='Rename Renamed']")).to_be_focused()
    page.click("[aria-label='Delete Renamed']")
    page.keyboard.press("Escape")
    expect(page.locator("#chats li")).to_have_count(2)
    page.click("[aria-label='Delete Renamed']")
    page.click("#confirm button:has-text('Delete')")
    expect(page.locator("#title")).to_have_text("first")
    expect(page.locator("#chats a")).to_be_focused()
    page.reload()
    expect(page.locator("#chats li")).to_have_count(1)


def test_export_and_import(visit: Callable[..., Page], server: PageServer, tmp_path: Path) -> None:
    page = visit()
    server.reply = Reply(["Grüße 🙂"])
    converse(page, "first")
    converse(page, "second")
    page.keyboard.press("Alt+r")
    finished(page)
    with page.expect_download() as download:
        page.click("#export")
    assert re.fullmatch(r"krafla-chats-\d{4}-\d\d-\d\d\.json", download.value.suggested_filename)
    path = tmp_path / "chats.json"
    download.value.save_as(path)

    other = visit()
    other.set_input_files("#import-file", path)
    expect(other.locator("#notice span")).to_have_text("Imported 1 conversation.")
    other.click("#chats a")
    expect(other.locator(ANSWER)).to_have_text("Grüße 🙂")
    expect(other.locator(".branches")).to_contain_text("2/2")
    other.set_input_files("#import-file", path)
    expect(other.locator("#notice span")).to_have_text("All of these conversations are here already.")
    expect(other.locator("#chats li")).to_have_count(1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "This file is not JSON."),
        ('{"format": "other"}', "This file holds no Krafla conversations."),
        (
            '{"format": "krafla-chats", "version": 2, "chats": []}',
            "This file has version 2; this page reads version 1.",
        ),
        (
            '{"format": "krafla-chats", "version": 1, "chats": [{"id": "a", "title": "t", "leaf": "x", "messages": '
            '[{"id": "x", "parent": "x", "role": "user", "text": "its own parent"}]}]}',
            "Conversation 1 of this file is damaged; nothing was imported.",
        ),
    ],
)
def test_a_damaged_file_is_not_imported(page: Page, tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "chats.json"
    path.write_text(text)
    page.set_input_files("#import-file", path)
    expect(page.locator("#notice span")).to_have_text(sentence)
    expect(page.locator("#chats li")).to_have_count(0)


def test_two_tabs_show_the_same(page: Page, server: PageServer) -> None:
    converse(page, "question")
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator(ANSWER)).to_have_text("Hello, world.")
    server.reply = Reply(["from the other tab"])
    converse(other, "more")
    expect(page.locator(ANSWER)).to_have_text("from the other tab")


def test_a_full_browser_says_so(page: Page) -> None:
    page.evaluate("localStorage.setItem('filler', 'x'.repeat(5 * 1024 * 1024 - 200))")
    converse(page, "question")
    expect(page.locator("#notice span")).to_contain_text("The browser has no room left")
    expect(page.locator(ANSWER)).to_have_text("Hello, world.")


# What can go wrong


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (Reply(status=429, retry_after=3), "The server is busy; try again in 3 seconds."),
        (Reply(status=503), "The server is not ready; try again in a moment."),
        (Reply(status=400, message="the prompt has 3000 tokens"), "The prompt has 3000 tokens."),
        (Reply(status=500), "The server answered with status 500."),
        (Reply([], error="out of memory"), "Out of memory."),
        (Reply([], cut=True), "The connection was lost in the middle of the answer."),
    ],
)
def test_an_error_is_one_sentence_and_a_retry(
    page: Page, server: PageServer, reply: Reply, sentence: str
) -> None:
    server.reply = reply
    converse(page, "question")
    expect(page.get_by_role("alert").filter(has_text=sentence)).to_have_text(sentence)
    page.reload()
    expect(page.locator(".note span")).to_have_text(sentence)
    server.reply = Reply()
    page.click("button:has-text('Try again')")
    expect(page.locator(ANSWER)).to_have_text("Hello, world.")
    finished(page)
    expect(page.locator(".note")).to_be_hidden()
    expect(page.locator(".branches")).to_have_count(0)
    assert sent(server) == [("user", "question")]


def test_an_error_in_the_middle_keeps_what_came(page: Page, server: PageServer) -> None:
    server.reply = Reply(["half"], cut=True)
    converse(page, "question")
    expect(page.locator(ANSWER)).to_have_text("half")
    server.reply = Reply(["whole"])
    page.click("button:has-text('Try again')")
    expect(page.locator(ANSWER)).to_have_text("whole")
    expect(page.locator(".branches")).to_contain_text("2/2")


def test_an_unreachable_server(page: Page, server: PageServer) -> None:
    page.route("**/v1/chat/completions", lambda route: route.abort())
    converse(page, "question")
    expect(page.locator(".note span")).to_have_text(
        "The server cannot be reached; is krafla serve still running?"
    )
    page.unroute("**/v1/chat/completions")
    converse(page, "another question instead")
    assert sent(server) == [("user", "question\n\nanother question instead")]


def test_the_key_is_asked_for_and_sent(page: Page, server: PageServer) -> None:
    server.key = "right"
    ask(page, "question")
    page.fill("#key [name=key]", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#key [name=key]")).to_have_value("")
    expect(page.locator("#key")).to_be_visible()
    page.fill("#key [name=key]", "right")
    page.keyboard.press("Enter")
    expect(page.locator(ANSWER)).to_have_text("Hello, world.")
    assert "right" not in page.evaluate("JSON.stringify(localStorage)")
    page.reload()
    converse(page, "the tab remembers it")
    expect(page.locator("#key")).to_be_hidden()


def test_loading_is_waited_for(page: Page, server: PageServer) -> None:
    server.state = "loading"
    page.reload()
    expect(page.locator("#notice span")).to_have_text(
        "The model is loading; a question can be sent when it is there."
    )
    server.state = "ready"
    expect(page.locator("#notice")).to_be_hidden()


def test_a_model_that_failed_is_not_waited_for(page: Page, server: PageServer) -> None:
    server.state = "failed"
    page.reload()
    expect(page.locator("#notice span")).to_have_text("The model cannot be read.")
    server.state = "ready"
    page.click("#notice button")
    expect(page.locator("#notice")).to_be_hidden()


@pytest.mark.slow
def test_krafla_serve_answers(browser: Any, tmp_path: Path) -> None:
    """The whole way: `krafla serve` with its default model (93 MB, unless the test cache has it), key and page."""
    log = tmp_path / "log"
    arguments = ["serve", "--port", "0", "--ctx", "512", "--api-key", "secret"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "krafla.runtime.cli", *arguments], stderr=stream, cwd=ROOT
        )
    try:
        while not (found := re.search(r"listening on (http://[\d.:]+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        wrong: list[str] = []
        context = browser.new_context()
        page = context.new_page()
        page.on("request", lambda request: request.url.startswith(found[1]) or wrong.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        response = page.goto(found[1])
        assert response.headers["content-security-policy"] == "frame-ancestors 'none'"
        expect(page.locator("#key")).to_be_visible(timeout=300_000)  # when the model is loaded
        page.fill("#key [name=key]", "secret")
        page.keyboard.press("Enter")
        expect(page.locator("#model")).to_contain_text("SmolLM2-135M-Instruct")
        ask(page, "Tell me a long story about a volcano.")
        expect(page.locator(ANSWER)).to_contain_text(" ", timeout=60_000)
        page.keyboard.press("Escape")
        expect(page.locator(".note")).to_have_text("Stopped.")
        page.keyboard.press("Alt+n")
        page.click("#open-settings")
        page.fill("#settings [name=max_tokens]", "60")
        page.keyboard.press("Enter")
        ask(page, "Why is the sky blue?")
        expect(page.locator(ANSWER)).to_contain_text("scatter", timeout=60_000)
        expect(page.locator("#send")).to_have_attribute("aria-label", "Send", timeout=60_000)
        expect(page.locator(".stats")).to_contain_text(re.compile(r"^60 tokens · [\d.]+ tokens/s"))
        expect(page.locator(".note")).to_have_text("The answer reached its longest length.")
        expect(page.locator("#context-text")).to_have_text(re.compile(r"^[1-9]\d+ / 512$"))
        ask(page, "word " * 600)
        expect(page.locator(".note.error")).to_contain_text("512")
        context.close()
        assert not wrong
    finally:
        process.terminate()
        assert process.wait(30) == 0


# Markdown

CASES = [
    ("plain <b>text</b> & more", "<p>plain &lt;b&gt;text&lt;/b&gt; &amp; more</p>"),
    ("a\nb  \nc\n\nd", "<p>a<br>b<br>c</p><p>d</p>"),
    ("# One\n## Two\n##### Five", "<h3>One</h3><h4>Two</h4><h5>Five</h5>"),
    (
        "**b** *i* __b__ _i_ ~~s~~ `c`",
        "<p><strong>b</strong> <em>i</em> <strong>b</strong> <em>i</em> <del>s</del> <code>c</code></p>",
    ),
    ("***both*** **a *b***", "<p><em><strong>both</strong></em> <strong>a <em>b</em></strong></p>"),
    ("2 * 3 * 4, a_b_c, **open, 5*", "<p>2 * 3 * 4, a_b_c, **open, 5*</p>"),
    (r"\*not\* `\*` \\", r"<p>*not* <code>\*</code> \</p>"),
    ("`` a`b `` and **`**`**", "<p><code>a`b</code> and <strong><code>**</code></strong></p>"),
    ("- a\n- b\n  - c\n\nend", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><p>end</p>"),
    ("3. a\n4. b\n   more", '<ol start="3"><li>a</li><li>b<br>more</li></ol>'),
    ("1. a\n\n2. b", "<ol><li><p>a</p></li><li><p>b</p></li></ol>"),
    ("so:\n- a\n1. b", "<p>so:</p><ul><li>a</li></ul><ol><li>b</li></ol>"),
    ("> a\n> - b\n\nc", "<blockquote><p>a</p><ul><li>b</li></ul></blockquote><p>c</p>"),
    ("a\n---\n***", "<p>a</p><hr><hr>"),
    (
        "| a | b |\n|:-:|--:|\n| 1 | `x|y` |\n| \\| |",
        '<div class="table" tabindex="0" role="group" aria-label="Table"><table><thead>'
        '<tr><th class="center" scope="col">a</th><th class="right" scope="col">b</th></tr></thead>'
        '<tbody><tr><td class="center">1</td><td class="right">`x</td></tr>'
        '<tr><td class="center">|</td><td class="right"></td></tr></tbody></table></div>',
    ),
]
LINK = '<a href="{0}" target="_blank" rel="noopener noreferrer">{1}</a>'
CASES += [
    ('[a *b*](https://x.org/(1) "t")', f"<p>{LINK.format('https://x.org/(1)', 'a <em>b</em>')}</p>"),
    ("(https://x.org/a_b_c).", f"<p>({LINK.format('https://x.org/a_b_c', 'https://x.org/a_b_c')}).</p>"),
    ("<mailto:a@b.org>", f"<p>{LINK.format('mailto:a@b.org', 'mailto:a@b.org')}</p>"),
    ("![cat](https://x.org/c.png)", f"<p>{LINK.format('https://x.org/c.png', 'cat')}</p>"),
    ("[a](javascript:alert(1)) [b](/path) [c]", "<p><span>a</span> <span>b</span> [c]</p>"),
]
RENDER = """async (text) => {
    const { renderMarkdown } = await import('./markdown.js');
    const node = document.createElement('div');
    for (const end of [Math.floor(text.length / 2), text.length]) renderMarkdown(node, text.slice(0, end));
    return node.innerHTML;
}"""


def test_markdown(page: Page) -> None:
    for source, html in CASES:
        assert page.evaluate(RENDER, source) == html, source


def test_code_is_shown_as_written_and_copied(page: Page, server: PageServer) -> None:
    code = "def f():\n    return '<i>' + \"**\"\n\n# end"
    server.reply = Reply(["Look:\n", "```py\n", code, "\n```\nDone."])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    converse(page, "code")
    assert page.locator("pre").text_content() == code
    expect(page.locator(".code-head")).to_have_text("py")
    page.click("[aria-label='Copy this code']")
    expect(page.locator("#status")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == code


def test_nasty_markdown_takes_no_time(page: Page) -> None:
    """Nesting and unfinished marks: neither a deep recursion nor a search that grows with the square."""
    nasty = [
        "[",
        "> ",
        "- ",
        "*a ",
        "**a",
        "_a ",
        "`a ``b ",
        "![a](",
        "<",
        "|a|\n|-|\n",
        "~~a ~~",
        "1. ",
        "\\",
        "*a **b ",
        "[a](b) ",
    ]
    took = page.evaluate(
        """async (nasty) => {
            const { renderMarkdown } = await import('./markdown.js');
            const times = {};
            for (const piece of nasty) {
                const began = performance.now();
                renderMarkdown(document.createElement('div'), piece.repeat(20000 / piece.length));
                times[piece] = performance.now() - began;
            }
            return times;
        }""",
        nasty,
    )
    assert max(took.values()) < 3000, took


def test_what_did_not_change_keeps_its_nodes(page: Page, server: PageServer) -> None:
    server.reply = Reply(["# Title\n\nfirst\n\n", "second"], hold_after=1)
    ask(page, "question")
    expect(page.locator(f"{ANSWER} p")).to_have_text("first")
    page.evaluate("document.querySelector('.message.assistant .body p').mark = 1")
    server.release.set()
    expect(page.locator(f"{ANSWER} p").last).to_have_text("second")
    # The end of an answer draws everything once more, so the growing one is what is looked at.
    assert page.evaluate(
        """async () => {
            const { renderMarkdown } = await import('./markdown.js');
            const node = document.createElement('div');
            renderMarkdown(node, 'a\\n\\nb');
            const first = node.firstChild;
            renderMarkdown(node, 'a\\n\\nbc\\n\\nd');
            return node.firstChild === first && node.childNodes.length === 3;
        }"""
    )


ATTACKS = [
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "<svg onload='window.hit = 1'></svg><iframe src='https://evil.example/'></iframe>",
    "[click](javascript:window.hit=1) [click](JaVaScRiPt:window.hit=1)",
    "[x](data:text/html,<script>window.hit=1</script>) [y](vbscript:window.hit=1)",
    "[click](https://x.org/\" onmouseover=\"window.hit=1) <https://x.org/' onclick='window.hit=1>",
    "![pixel](https://evil.example/pixel.png) <link rel=stylesheet href=https://evil.example/a.css>",
    '```"><script>window.hit=1</script>\n</code></pre><script>window.hit = 1</script>\n```',
    "| <img src=x onerror=window.hit=1> |\n|---|\n| <style>@import 'https://evil.example'</style> |",
    "<a href='javascript:window.hit=1'>a</a> <form action='https://evil.example'><input name=x></form>",
    "# <script>window.hit=1</script>\n- <details ontoggle=window.hit=1 open>\n> <math><mtext></mtext></math>",
]


def test_the_models_text_cannot_become_markup(page: Page, server: PageServer) -> None:
    everything = "\n\n".join(ATTACKS)
    server.reply = Reply(
        [everything[at : at + 7] for at in range(0, len(everything), 7)], thinking=[everything]
    )
    converse(page, everything)
    page.click("[aria-label^='Rename']")
    page.keyboard.type("<img src=x onerror=window.hit=1>")
    page.keyboard.press("Enter")
    page.reload()
    expect(page.locator("#title")).to_have_text("<img src=x onerror=window.hit=1>")
    page.click("summary")
    for element in (
        "script",
        "img",
        "iframe",
        "svg *",
        "style",
        "form",
        "link",
        "input",
        "details details",
        "math",
    ):
        assert page.locator(f".message .body {element}:not(.icon, .icon *)").count() == 0, element
    hrefs = page.eval_on_selector_all("#messages a", "links => links.map((link) => link.href)")
    assert hrefs
    assert all(href.startswith("https://") for href in hrefs)
    handlers = """[...document.querySelectorAll('#messages *')].flatMap((node) => node.getAttributeNames())
        .filter((name) => name.startsWith('on') || name === 'style')"""
    assert page.evaluate(handlers) == []
    assert page.evaluate("window.hit") is None
    expect(page.locator(ANSWER)).to_contain_text("<script>window.hit = 1</script>")


def test_what_is_open_stays_open(page: Page, server: PageServer) -> None:
    """The end of an answer and the next question draw only what changed."""
    server.reply = Reply(["Yes."], thinking=["hm"])
    converse(page, "question")
    page.click("summary")
    server.reply = Reply(["half ", "whole"], hold_after=1)
    ask(page, "more")
    expect(page.locator(ANSWER)).to_have_text("half")
    expect(page.locator("[aria-label='Answer again']")).to_be_disabled()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.message.user .body'))")
    server.release.set()
    finished(page)
    expect(page.locator(".thinking .body").first).to_be_visible()
    assert page.evaluate("getSelection().toString()") == "question"


def test_thinking_is_folded(page: Page, server: PageServer) -> None:
    server.reply = Reply(["<think>let me ", "see</think>\n\n", "Yes."])
    converse(page, "inside the text")
    expect(page.locator(".thinking")).to_be_visible()
    expect(page.locator(ANSWER)).to_have_text("Yes.")
    server.reply = Reply(["No."], thinking=["well, ", "hm"])
    converse(page, "apart from it")
    page.locator("summary").last.click()
    expect(page.locator(".thinking .body").last).to_have_text("well, hm")


# How it looks and who can use it


LIGHT, DARK = "rgb(252, 251, 249)", "rgb(23, 22, 20)"


def test_dark_and_light(visit: Callable[..., Page]) -> None:
    page = visit(color_scheme="dark")
    ground = expect(page.locator("body"))
    ground.to_have_css("background-color", DARK)
    page.click("[aria-label='Light colours']")
    ground.to_have_css("background-color", LIGHT)
    page.reload()
    ground.to_have_css("background-color", LIGHT)
    page.keyboard.press("Alt+d")
    ground.to_have_css("background-color", DARK)
    page.click("#open-settings")
    page.click("text=As the system")
    page.click("#settings button:has-text('Save')")
    page.emulate_media(color_scheme="light")
    ground.to_have_css("background-color", LIGHT)


def test_keyboard_alone(page: Page, server: PageServer) -> None:
    expect(page.locator("#input")).to_be_focused()
    page.keyboard.type("two")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("lines")
    page.keyboard.press("Enter")
    finished(page)
    assert sent(server) == [("user", "two\nlines")]
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focus = page.evaluate(
            """() => {
                const node = document.activeElement;
                const style = getComputedStyle(node), field = getComputedStyle(node.closest('.field') ?? node);
                return {name: node.id || node.ariaLabel || node.textContent.trim(), tag: node.tagName,
                    shown: style.outlineStyle !== 'none' || field.boxShadow.includes('0px 0px 0px 3px'),
                    opacity: getComputedStyle(node.closest('.actions') ?? node).opacity};
            }"""
        )
        if focus["tag"] == "BODY":
            continue
        if reached and focus["name"] == reached[0]:
            break
        reached.append(focus["name"])
        assert focus["shown"], focus
    for name in (
        "new-chat",
        "export",
        "theme",
        "open-settings",
        "open-help",
        "input",
        "Copy this question",
        "Edit this question",
        "Copy this answer",
        "Answer again",
        "Rename two lines",
        "Delete two lines",
    ):
        assert name in reached
    page.focus("#open-help")
    page.keyboard.press("Enter")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#open-help")).to_be_focused()
    page.keyboard.press("Alt+n")
    expect(page.locator("#title")).to_have_text("New chat")
    page.keyboard.press("Alt+j")
    expect(page.locator("#title")).to_have_text("two lines")
    page.keyboard.press("Alt+b")
    expect(page.locator("#sidebar")).to_be_hidden()
    expect(page.locator("#open-sidebar")).to_be_focused()
    page.keyboard.press("Alt+i")
    expect(page.locator("#input")).to_be_focused()


def test_escape_in_a_dialog_does_not_stop_the_answer(page: Page, server: PageServer) -> None:
    server.reply = Reply(["a", "b"], hold_after=1)
    ask(page, "question")
    expect(page.locator(ANSWER)).to_have_text("a")
    page.keyboard.press("Alt+h")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    server.release.set()
    expect(page.locator(ANSWER)).to_have_text("ab")


def test_a_screen_reader_hears_a_few_sentences(page: Page, server: PageServer) -> None:
    page.evaluate(
        """() => {
            window.heard = [];
            const region = document.getElementById('status');
            new MutationObserver(() => region.textContent && window.heard.push(region.textContent))
                .observe(region, {childList: true});
        }"""
    )
    server.reply = Reply(["word "] * 60 + ["end."], hold_after=60)
    ask(page, "question")
    expect(page.locator(ANSWER)).to_contain_text("word word")
    expect(page.locator("#status")).to_have_text("Answering.")
    server.release.set()
    expect(page.locator("#status")).to_have_text("word " * 60 + "end.")
    assert page.evaluate("window.heard") == ["Answering.", "word " * 60 + "end."]
    live = page.locator(
        "#messages [aria-live], #messages[aria-live], #messages [role=status], #messages [role=log]"
    )
    assert live.count() == 0


def test_the_end_stays_in_view_unless_one_reads_above(page: Page, server: PageServer) -> None:
    above = "document.getElementById('scroll').scrollHeight - innerHeight - document.getElementById('scroll').scrollTop"
    server.reply = Reply(["line\n\n"] * 60 + ["more\n\n"] * 60 + ["end"], hold_after=60)
    ask(page, "question")
    expect(page.locator(f"{ANSWER} p")).to_have_count(60)
    assert page.evaluate(above) < 60
    page.mouse.move(600, 300)
    page.mouse.wheel(0, -600)
    expect(page.locator("#to-end")).to_be_visible()
    top = page.evaluate("document.getElementById('scroll').scrollTop")
    server.release.set()
    finished(page)
    assert page.evaluate("document.getElementById('scroll').scrollTop") == top
    page.click("#to-end")
    assert page.evaluate(above) < 60


def test_phone(visit: Callable[..., Page], server: PageServer) -> None:
    page = visit(viewport={"width": 360, "height": 640}, is_mobile=True, has_touch=True)
    server.reply = Reply([MARKDOWN, "\n\n", "long" * 60])
    page.fill("#input", "wide " + "things" * 30)
    page.tap("#send")
    finished(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("document.getElementById('scroll').scrollWidth") == 360
    assert (
        page.evaluate("getComputedStyle(document.getElementById('input')).fontSize") == "16px"
    )  # or iOS zooms in
    expect(page.locator("#sidebar")).to_be_hidden()
    page.tap("#open-sidebar")
    expect(page.locator("#sidebar")).to_be_visible()
    assert page.evaluate("document.getElementById('main').inert")
    page.keyboard.press("Escape")
    expect(page.locator("#sidebar")).to_be_hidden()
    page.tap("#open-sidebar")
    page.tap("#new-chat")
    expect(page.locator("#sidebar")).to_be_hidden()
    expect(page.locator(".empty")).to_be_visible()
    page.tap("#open-settings")
    box = page.locator("#settings").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    for button in page.locator("button:visible").all():
        size = button.bounding_box()
        assert min(size["width"], size["height"]) >= 32, button.inner_text()


def audit(page: Page, state: str, rules: list[str] | None = None) -> None:
    if page.evaluate("!window.axe"):
        page.evaluate(AXE.read_text(encoding="utf-8") + "; null")
    found = page.evaluate("(only) => axe.run(only ? {runOnly: only} : {})", rules)
    wrong = [(rule["id"], [node["html"][:150] for node in rule["nodes"]]) for rule in found["violations"]]
    assert not wrong, f"{state}: {json.dumps(wrong, indent=1)}"
    assert len(found["passes"]) > (0 if rules else 15)


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core from npm")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(visit: Callable[..., Page], server: PageServer, scheme: str) -> None:
    page = visit(color_scheme=scheme, reduced_motion="reduce")
    # Only contrast depends on the colours; one state in the dark is looked at whole, all the others for that.
    rules = None if scheme == "light" else ["color-contrast"]
    audit(page, "empty", rules)
    server.reply = Reply([MARKDOWN], thinking=["so"])
    converse(page, "question")
    converse(page, "another")
    page.keyboard.press("Alt+r")
    finished(page)
    page.locator("summary").last.click()
    page.hover(".message.user")
    audit(page, "conversation")
    server.reply = Reply(["half", "rest"], hold_after=1)
    ask(page, "more")
    expect(page.locator(ANSWER)).to_have_text("half")
    audit(page, "answering", rules)
    page.keyboard.press("Escape")
    server.reply = Reply(status=429)
    converse(page, "error")
    audit(page, "error", rules)
    page.keyboard.press("Alt+e")
    audit(page, "editing", rules)
    page.keyboard.press("Escape")
    page.click("[aria-label^='Rename']")
    audit(page, "renaming", rules)
    page.keyboard.press("Escape")
    server.key = "secret"
    for opener in ("#open-settings", "#open-help", "#chats [aria-label^='Delete']", "#key"):
        if opener == "#key":
            ask(page, "locked")
        else:
            page.click(opener)
        expect(page.locator("dialog[open]")).to_be_visible()
        audit(page, opener, rules)
        page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 640})
    audit(page, "phone", rules)
    page.click("#open-sidebar")
    audit(page, "drawer", rules)


def test_the_guide_lists_the_shortcuts(page: Page) -> None:
    page.keyboard.press("Alt+h")
    rows = page.locator("#shortcuts div").all()
    shown = {" ".join(row.locator("kbd").all_inner_texts()): row.locator("dd").inner_text() for row in rows}
    guide = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    table = re.findall(
        r"^\| (.+?) \| .+? \|$", guide.partition("## Keys")[2].partition("\n\nEverything")[0], re.M
    )
    assert {keys for row in table[1:] for keys in row.split(", ")} == set(shown)

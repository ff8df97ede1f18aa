"""The HTTP interface over a scheduler that says what the test wants: fields, errors, streams, limits."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the serve extra is not installed")
httpx = pytest.importorskip("httpx", reason="the clients extra is not installed")

from krafla.runtime.server import docs, middleware, schema, schema_messages, schema_responses
from krafla.runtime.server.app import create_app
from krafla.runtime.server.request import Request
from krafla.runtime.server.scheduler import SchedulerOptions
from krafla.runtime.server.service import Service, ServiceOptions
from tests import servers
from tests.servers import Script, events, scripted, small

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
FORMATS = {
    servers.PLAIN: '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>',
    servers.HERMES: '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>',
    servers.THINKING: "<think>Hm</think>\n"
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>',
    servers.QWEN_XML: "<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</parameter>\n"
    "</function>\n</tool_call>",
    servers.LLAMA: '{"name": "weather", "parameters": {"city": "Zürich"}}',
    servers.MISTRAL: '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Zürich"}}]',
    servers.SMOLLM3: '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>',
    servers.GEMMA: '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>',
}


class Server:
    """A scripted server and a client for it."""

    def __init__(self, url: str, script: Script) -> None:
        self.script = script
        self.client = httpx.Client(base_url=url, timeout=20)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def says(self, text: str | None) -> Server:
        self.script.answer = lambda request: text
        self.script.requests.clear()
        self.script.refused.clear()
        return self

    def post(self, path: str, body: Any, **headers: str) -> Any:
        content = json.dumps(body).encode()
        return self.client.post(
            path, content=content, headers={"content-type": "application/json", **headers}
        )

    def ok(self, path: str, body: Any) -> Any:
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        return response.json()

    def stream(self, path: str, body: Any) -> list[Any]:
        response = self.post(path, {**body, "stream": True})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return events(response.text)

    def chat(self, **fields: Any) -> Any:
        return self.ok(CHAT, {**HELLO, **fields})

    def deltas(self, **fields: Any) -> list[Any]:
        chunks = self.stream(CHAT, {**HELLO, **fields})
        assert chunks.pop() == "[DONE]"
        return [chunk["choices"][0] for chunk in chunks if chunk["choices"]]

    def refusal(self, path: str, body: Any, status: int = 400) -> Any:
        response = self.post(path, body)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert error.keys() >= {"message", "type"}
        return error

    @property
    def request(self) -> Request:
        return self.script.requests[-1]

    def prompt(self) -> str:
        ids = self.request.prompt
        return b"".join(bytes([i]) if i < 256 else servers.ADDED[i - 256].encode() for i in ids).decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Iterator[Server]:
    script = Script()
    with scripted(small(folder), script, ctx=1000, max_tokens=200) as url, Server(url, script) as server:
        yield server


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    script = Script()
    with (
        scripted(small(tmp_path_factory.mktemp("think"), servers.THINKING), script) as url,
        Server(url, script) as server,
    ):
        yield server


# ---- Chats ----


def test_a_chat(plain: Server) -> None:
    answer = plain.says("Hi, Ünal!").chat(model="any")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "small"
    assert re.fullmatch(r"krafla-[\d.]+-(un)?fused-kv_f32-[0-9a-f]{16}", answer["system_fingerprint"])
    (choice,) = answer["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "Hi, Ünal!"},
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert answer["usage"] == {
        "prompt_tokens": 20,
        "completion_tokens": 10,
        "total_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    assert plain.prompt() == "<|start|>user\nHi<|end|><|start|>assistant\n"


def test_every_kind_of_message_reaches_the_template(thinking: Server) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    thinking.says("ok").chat(
        messages=[
            {
                "role": "developer",
                "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind"}],
            },
            {"role": "user", "content": "Hi", "name": "Ada"},
            {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
            {"role": "tool", "tool_call_id": "c1", "content": "7"},
        ]
    )
    assert "<|start|>system\nBe kind<|end|>" in thinking.prompt()
    assert "<|start|>tool\n7<|end|>" in thinking.prompt()


def test_sampling_fields_reach_the_scheduler(plain: Server) -> None:
    plain.says("x").chat(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, repeat_penalty=1.2, presence_penalty=0.3,
        frequency_penalty=-0.4, logit_bias={"65": -100, "66": 2.5}, seed=-1, max_completion_tokens=9,
        ignore_eos=True, logprobs=True, top_logprobs=2,
    )  # fmt: skip
    request = plain.request
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 7, 0.1)
    assert (request.penalties.repeat, request.penalties.presence, request.penalties.frequency) == (
        1.2,
        0.3,
        -0.4,
    )
    assert request.logit_bias == {65: -100, 66: 2.5}
    assert (request.max_tokens, request.seed, request.ignore_eos, request.logprobs) == (9, 2**64 - 1, True, 2)
    assert request.stop_ids == {servers.STOP}


def test_defaults(plain: Server) -> None:
    plain.says("x").chat()
    assert plain.request.max_tokens == 200  # the server's limit
    assert plain.request.sampling.temperature == 0
    assert plain.request.seed is None


def test_inert_fields_change_nothing(plain: Server) -> None:
    values = {"user": "u", "metadata": {"a": 1}, "store": True, "service_tier": "auto", "prompt_cache_key": "k",
              "verbosity": "low"}  # fmt: skip
    assert set(values) == set(schema.INERT) == set(schema.Inert.model_fields)
    plain.says("x").chat()
    bare = plain.request
    plain.chat(**values)
    assert (plain.request.prompt, plain.request.sampling) == (bare.prompt, bare.sampling)


def test_several_answers_with_seeds_of_their_own(plain: Server) -> None:
    plain.script.answer = lambda request: f"seed {request.seed}"
    plain.script.requests.clear()
    answer = plain.chat(n=3, seed=40)
    assert [c["message"]["content"] for c in answer["choices"]] == ["seed 40", "seed 41", "seed 42"]
    assert answer["usage"]["prompt_tokens"] == 20
    chunks = plain.stream(CHAT, {**HELLO, "n": 2, "seed": 5})
    texts = {0: "", 1: ""}
    for chunk in chunks[:-1]:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == {0: "seed 5", 1: "seed 6"}


def test_logprobs(plain: Server) -> None:
    for choice in (
        plain.says("aü").chat(logprobs=True, top_logprobs=2)["choices"][0],
        {"logprobs": {"content": [t for c in plain.deltas(logprobs=True, top_logprobs=2) if c["logprobs"]
                                  for t in c["logprobs"]["content"]]}},
    ):  # fmt: skip
        entries = choice["logprobs"]["content"]
        assert [entry["bytes"] for entry in entries] == [[97], [0xC3], [0xBC]]
        assert entries[0]["top_logprobs"][1] == {"token": "B", "logprob": -2.0, "bytes": [66]}
        assert entries[0]["token"] == "a"
        assert entries[1]["logprob"] == -1.5


# ---- Streams ----


def test_a_stream(plain: Server) -> None:
    chunks = plain.says("Hé🙂").stream(CHAT, {**HELLO, "stream_options": {"include_usage": True}})
    assert chunks.pop() == "[DONE]"
    last = chunks.pop()
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 7
    assert all(chunk["usage"] is None for chunk in chunks)
    assert {chunk["id"] for chunk in chunks} == {last["id"]}
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert [delta["content"] for delta in deltas[1:-1]] == ["H", "é", "🙂"]  # characters are never split
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"]
    assert "usage" not in plain.stream(CHAT, HELLO)[0]


def test_stop_strings_are_cut_off(plain: Server) -> None:
    plain.says("one END two")
    answer = plain.chat(stop=["END", "zzz"])
    assert answer["choices"][0]["message"]["content"] == "one "
    assert answer["choices"][0]["finish_reason"] == "stop"
    texts = [c["delta"].get("content", "") for c in plain.deltas(stop="END")]
    assert "".join(texts) == "one "
    assert plain.script.tickets[-1].cancel_wanted
    plain.says("one EN")
    assert "".join(c["delta"].get("content", "") for c in plain.deltas(stop="END")) == "one EN"


def test_the_length_is_told(plain: Server) -> None:
    choice = plain.says("abcdef").chat(max_tokens=3)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("abc", "length")


def test_headers_and_role_come_before_the_first_token(folder: Path) -> None:
    script = Script(answer=lambda request: None)
    with scripted(small(folder), script, keep_alive=0.1) as url:
        with httpx.stream("POST", url + CHAT, json={**HELLO, "stream": True}, timeout=20) as response:
            lines = response.iter_lines()
            assert (
                json.loads(next(lines).removeprefix("data: "))["choices"][0]["delta"]["role"] == "assistant"
            )
            assert next(lines) == ""
            assert next(lines) == ": keep-alive"
        wait_until(lambda: script.tickets[-1].cancel_wanted)  # the client is gone


def wait_until(condition: Any, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_client_that_leaves_cancels_its_own_request_only(folder: Path) -> None:
    script = Script(answer=lambda request: None)
    with scripted(small(folder), script) as url:
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps(HELLO).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        leaving, staying = (socket.create_connection((host, int(port))) for _ in range(2))
        for i, client in enumerate((leaving, staying)):
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            wait_until(lambda i=i: len(script.tickets) == i + 1)
        leaving.close()
        wait_until(lambda: script.tickets[0].cancel_wanted)
        assert not script.tickets[1].cancel_wanted
        staying.close()
        wait_until(lambda: script.tickets[1].cancel_wanted)


def test_an_answer_that_fails_in_the_middle(plain: Server) -> None:
    schema_ = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
    plain.says("12x")
    chunks = plain.stream(CHAT, {**HELLO, "response_format": schema_})
    assert chunks.pop() == "[DONE]"
    assert chunks[-1]["error"]["type"] == "server_error"
    assert (
        plain.refusal(CHAT, {**HELLO, "response_format": schema_}, 500)["message"]
        == "the grammar refuses 120"
    )


# ---- Tools, schemas, thoughts ----


@pytest.mark.parametrize(
    "template", FORMATS, ids=["plain", "hermes", "thinking", "qwen", "llama", "mistral", "smollm3", "gemma"]
)
def test_tool_calls_of_the_families(template: str, tmp_path: Path) -> None:
    script = Script()
    with scripted(small(tmp_path, template), script) as url, Server(url, script) as server:
        for choice in ("auto", "required", {"type": "function", "function": {"name": "weather"}}):
            answer = server.says(FORMATS[template]).chat(tools=[WEATHER], tool_choice=choice)["choices"][0]
            assert answer["finish_reason"] == "tool_calls"
            (call,) = answer["message"]["tool_calls"]
            assert call["type"] == "function"
            assert call["function"]["name"] == "weather"
            assert json.loads(call["function"]["arguments"]) == {"city": "Zürich"}
            assert answer["message"]["content"] is None
            assert "weather" in server.prompt()
            deltas = server.deltas(tools=[WEATHER], tool_choice=choice)
            parts = [part for delta in deltas for part in delta["delta"].get("tool_calls", [])]
            assert {part["index"] for part in parts} == {0}
            assert parts[0]["function"]["name"] == "weather"
            assert parts[0]["id"].startswith("call_")
            assert json.loads("".join(p["function"]["arguments"] for p in parts)) == {"city": "Zürich"}
            assert deltas[-1]["finish_reason"] == "tool_calls"
            result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
            conversation = [*HELLO["messages"], answer["message"], result]
            server.chat(messages=conversation, tools=[WEATHER])
            assert FORMATS[template].rpartition("</think>\n")[2] in server.prompt()
            assert "sunny" in server.prompt()
        assert (
            server.says("Just text").chat(tools=[WEATHER])["choices"][0]["message"]["content"] == "Just text"
        )
        wrong = FORMATS[template].replace("weather", "feather")
        assert server.says(wrong).post(CHAT, {**HELLO, "tools": [WEATHER]}).status_code == 500
        assert (
            server.says("Text")
            .post(CHAT, {**HELLO, "tools": [WEATHER], "tool_choice": "required"})
            .status_code
            == 500
        )


def test_parallel_tool_calls(plain: Server) -> None:
    one = FORMATS[servers.PLAIN]
    two = f"I ask. {one}\n{one}"
    message = plain.says(two).chat(tools=[WEATHER])["choices"][0]["message"]
    assert message["content"] == "I ask. "
    assert len({call["id"] for call in message["tool_calls"]}) == 2
    body = {**HELLO, "tools": [WEATHER], "parallel_tool_calls": False}
    assert plain.post(CHAT, body).status_code == 500
    assert plain.says(f"I ask. {one}").post(CHAT, body).status_code == 200


def test_tool_choice_none_hides_the_tools(plain: Server) -> None:
    answer = plain.says(FORMATS[servers.PLAIN]).chat(tools=[WEATHER], tool_choice="none")["choices"][0]
    assert "tool_calls" not in answer["message"]
    assert answer["message"]["content"].startswith("<tool_call>\n{")
    assert "weather" not in plain.prompt()
    assert plain.request.grammar is None


def test_a_conversation_with_calls_goes_on(plain: Server) -> None:
    call = plain.says(FORMATS[servers.PLAIN]).chat(tools=[WEATHER])["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "sunny"}
    plain.says("Sunny.").chat(messages=[*HELLO["messages"], call, result], tools=[WEATHER])
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>' in plain.prompt()
    assert "<tool_response>\nsunny\n</tool_response>" in plain.prompt()


def test_structured_output(plain: Server) -> None:
    schema_ = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema_, "strict": True}}
    assert (
        plain.says('{"a": 1}').chat(response_format=wanted)["choices"][0]["message"]["content"] == '{"a": 1}'
    )
    assert plain.says('{"a": "1"}').post(CHAT, {**HELLO, "response_format": wanted}).status_code == 500
    assert (
        plain.says("[]").post(CHAT, {**HELLO, "response_format": {"type": "json_object"}}).status_code == 500
    )
    plain.says('{"x": [null, "é"]}').chat(response_format={"type": "json_object"})
    plain.says("anything").chat(response_format={"type": "text"})
    assert plain.request.grammar is None


def test_thoughts_are_told_apart(thinking: Server) -> None:
    message = thinking.says("<think>\nHm.\n</think>\n\nYes.").chat()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    deltas = [choice["delta"] for choice in thinking.deltas()]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm."
    assert "".join(delta.get("content", "") for delta in deltas) == "Yes."
    thinking.says("Yes.").chat(reasoning_effort="none")
    assert thinking.prompt().endswith("<think></think>")
    thinking.chat(chat_template_kwargs={"enable_thinking": False})
    assert thinking.prompt().endswith("<think></think>")
    wanted = {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}
    message = thinking.says("<think>a { b</think>\n12").chat(response_format=wanted)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("a { b", "12")


# ---- Refusals ----

UNENFORCEABLE = {"type": "json_schema", "schema": {"not": {}}}
TOOL_LOOKING_BACK = {"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}
BAD_CHATS: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
    ({"messages": [{"content": ""}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": "a", "x": 1}]}, "messages[0].x"),
    ({"messages": [{"role": "tool", "tool_call_id": "?", "content": ""}]}, "messages[0].tool_call_id"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "["}}]}]},
        "messages[0].tool_calls[0].function.arguments",
    ),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"extra": 1}}, "stream_options.extra"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 201}, "max_tokens"),  # the server's limit
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens"),
    ({"max_completion_tokens": "1"}, "max_completion_tokens"),
    ({"max_completion_tokens": 201}, "max_completion_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.5}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_k": -1}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"repeat_penalty": 0}, "repeat_penalty"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"logit_bias": {"a": 1}}, "logit_bias"),
    ({"logit_bias": {"5": 101}}, "logit_bias.5"),
    ({"logit_bias": {"99999": 1}}, "logit_bias"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"seed": 2**64}, "seed"),
    ({"seed": "1"}, "seed"),
    ({"stop": [""]}, "stop[0]"),
    ({"stop": 5}, "stop"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"ignore_eos": 1}, "ignore_eos"),
    ({"logprobs": 3}, "logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 101}, "top_logprobs"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [WEATHER, WEATHER]}, "tools"),
    ({"tools": [TOOL_LOOKING_BACK]}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "huge"}}}}, "response_format"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"uniqueItems": True, "type": "array"}}}},
        "response_format",
    ),
    ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"reasoning_effort": "huge"}, "reasoning_effort"),
    ({"chat_template_kwargs": {"foo": 1}}, "chat_template_kwargs.foo"),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    ({"model": 5}, "model"),
    ({"user": 5}, "user"),
    ({"audio": {}}, "audio"),
    ({"functions": []}, "functions"),
    ({"best_of": 2}, "best_of"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param"), BAD_CHATS, ids=lambda value: str(value)[:50])
def test_wrong_fields_are_refused_by_name(plain: Server, fields: dict[str, Any], param: str) -> None:
    error = plain.refusal(CHAT, {**HELLO, **fields})
    assert error["param"] == param
    assert error["message"].startswith(param)
    assert error["type"] == "invalid_request_error"


def test_every_field_of_a_chat_has_a_refusal_above() -> None:
    tried = {key for fields, _ in BAD_CHATS for key in fields}
    assert tried >= schema.ChatRequest.model_fields.keys() - set(schema.INERT)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {}, "prompt"),
        ("/v1/completions", {"prompt": [1, "a"]}, "prompt[0]"),
        ("/v1/completions", {"prompt": []}, "prompt"),
        ("/v1/completions", {"prompt": [[5], [6, 9999]]}, "prompt[1][1]"),
        ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
        ("/v1/completions", {"prompt": "a", "logprobs": 101}, "logprobs"),
        ("/v1/completions", {"prompt": "a", "logprobs": True}, "logprobs"),
        ("/v1/completions", {"prompt": "a", "messages": []}, "messages"),
        ("/v1/embeddings", {"input": ""}, "input"),
        ("/v1/embeddings", {"input": ["a", ""]}, "input[1]"),
        ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ("/v1/embeddings", {"input": "a", "dimensions": 3}, "dimensions"),
        ("/v1/responses", {"input": "a", "previous_response_id": "r"}, "previous_response_id"),
        ("/v1/responses", {"input": "a", "background": True}, "background"),
        ("/v1/responses", {"input": "a", "reasoning": {"effort": "low"}}, "reasoning.effort"),
        ("/v1/responses", {"input": "a", "top_logprobs": 1}, "top_logprobs"),
        ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input[0].content[0].type"),
        ("/v1/responses", {"input": "a", "tools": [{"type": "web_search"}]}, "tools[0].type"),
        ("/v1/responses", {"input": "a", "text": {"format": UNENFORCEABLE}}, "text.format"),
        ("/v1/responses", {"input": "a", "max_output_tokens": 999}, "max_output_tokens"),
        ("/tokenize", {"content": 1}, "content"),
        ("/tokenize", {"content": "a", "add_special": True}, "add_special"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {"tokens": [99999]}, "tokens[0]"),
        ("/apply-template", {**HELLO, "x": 1}, "x"),
    ],
)  # fmt: skip
def test_other_endpoints_refuse_by_name(plain: Server, path: str, body: Any, param: str) -> None:
    error = plain.refusal(path, body)
    assert error["param"] == param
    assert error["message"].startswith(param)


def test_bodies_that_are_no_requests(plain: Server) -> None:
    def post(content: bytes, kind: str = "application/json") -> Any:
        return plain.client.post(CHAT, content=content, headers={"content-type": kind})

    for content in (
        b"{",
        b"[1]",
        b"nul",
        b"\xff",
        b"",
        b'{"messages": ' + b"[" * 100_000,
        b'{"user": "\\ud800"}',
    ):
        response = post(content)
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"
    response = post(json.dumps(HELLO).encode(), "text/plain")
    assert response.status_code == 400
    assert "content-type: application/json" in response.json()["error"]["message"]
    assert post(b'{"messages": [{"role": "user", "content": "a"}], "temperature": NaN}').status_code == 400


def test_prompts_that_do_not_fit(plain: Server) -> None:
    error = plain.refusal(CHAT, {"messages": [{"role": "user", "content": "a" * 1000}]})
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "messages"
    assert "1000 tokens" in error["message"]
    assert "1018 tokens" in error["message"]
    assert plain.refusal("/v1/completions", {"prompt": "a" * 1001})["code"] == "context_length_exceeded"
    assert plain.refusal("/v1/responses", {"input": "a" * 1001})["param"] == "input"


def test_a_full_queue(plain: Server) -> None:
    plain.script.full = True
    try:
        response = plain.post(CHAT, HELLO)
    finally:
        plain.script.full = False
    assert response.status_code == 429
    assert response.headers["retry-after"] == "2"
    assert response.json()["error"]["type"] == "rate_limit_error"


def test_wrong_addresses(plain: Server) -> None:
    response = plain.client.get("/v1/nothing")
    assert response.status_code == 404
    assert response.json()["error"] == {
        "message": "there is no /v1/nothing", "type": "not_found_error", "param": None, "code": None,
    }  # fmt: skip
    response = plain.client.get(CHAT)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["message"] == f"GET is not for {CHAT}"


# ---- The other endpoints ----


def test_models(plain: Server) -> None:
    (card,) = plain.client.get("/v1/models").json()["data"]
    assert card["id"] == "small"
    assert card["meta"]["n_ctx"] == 1000
    assert plain.client.get("/v1/models/small").json() == card
    assert plain.client.get("/v1/models/a/b").status_code == 404


def test_completions(plain: Server) -> None:
    answer = plain.says("bcd").ok("/v1/completions", {"prompt": "a", "echo": True, "logprobs": 2})
    (choice,) = answer["choices"]
    assert answer["object"] == "text_completion"
    assert choice["text"] == "abcd"
    assert choice["logprobs"] == {
        "tokens": ["a", "b", "c", "d"],
        "token_logprobs": [None, -1.5, -1.5, -1.5],
        "top_logprobs": [None, {"B": -2.0, "b": -1.5}, {"B": -2.0, "c": -1.5}, {"B": -2.0, "d": -1.5}],
        "text_offset": [0, 1, 2, 3],
    }
    assert plain.request.prompt_logprobs == 2
    assert plain.request.max_tokens == 16
    body = {"prompt": [[97, 98], [0xC3]], "max_tokens": 0, "echo": True, "logprobs": 1}
    first, second = plain.says("").ok("/v1/completions", body)["choices"]
    assert first["text"] == "ab"
    assert first["logprobs"]["token_logprobs"] == [None, -0.5]
    assert second["logprobs"]["tokens"] == ["bytes:\\xc3"]
    assert (
        plain.ok("/v1/completions", {"prompt": ["x", "y"], "echo": True, "n": 2})["choices"][3]["text"] == "y"
    )
    chunks = plain.says("bc").stream("/v1/completions", {"prompt": "a", "echo": True})
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1]) == "abc"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None, None, "stop"]


def test_embeddings(plain: Server) -> None:
    answer = plain.ok("/v1/embeddings", {"input": ["ab", "c"]})
    vectors = [entry["embedding"] for entry in answer["data"]]
    assert [len(vector) for vector in vectors] == [64, 64]
    assert [vector.index(1) for vector in vectors] == [0, 1]
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    for given in ([97, 98], "ab", [[97, 98]]):
        body = {"input": given, "encoding_format": "base64", "dimensions": 64}
        data = plain.ok("/v1/embeddings", body)["data"][0]["embedding"]
        assert np.frombuffer(base64.b64decode(data), "<f4").tolist() == vectors[0]
    assert len(plain.ok("/v1/embeddings", {"input": ["a"] * 50})["data"]) == 50


def test_responses(plain: Server) -> None:
    body = {"input": "Hi", "instructions": "Be kind", "max_output_tokens": 50}
    answer = plain.says("Hello").ok("/v1/responses", body)
    assert (answer["object"], answer["status"]) == ("response", "completed")
    (item,) = answer["output"]
    assert item["content"][0]["text"] == "Hello"
    assert plain.prompt().startswith("<|start|>system\nBe kind<|end|><|start|>user\nHi")
    assert (
        plain.says("Hello").ok("/v1/responses", {"input": "Hi", "max_output_tokens": 2})["status"]
        == "incomplete"
    )
    chunks = plain.says("Hey").stream("/v1/responses", body)
    assert [chunk["sequence_number"] for chunk in chunks] == list(range(len(chunks)))
    assert [chunk["type"].removeprefix("response.") for chunk in chunks] == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    assert chunks[-1]["response"]["output"][0]["content"][0]["text"] == "Hey"


def test_responses_with_calls(plain: Server) -> None:
    tool = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]
    answer = plain.says(FORMATS[servers.PLAIN]).ok("/v1/responses", {"input": "Hi", "tools": [tool]})
    (call,) = answer["output"]
    assert (call["type"], call["name"], json.loads(call["arguments"])) == (
        "function_call",
        "weather",
        {"city": "Zürich"},
    )
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    conversation = [{"role": "user", "content": "Hi"}, call, result]
    plain.says("Sunny").ok("/v1/responses", {"input": conversation, "tools": [tool]})
    assert "<tool_response>\nsunny\n</tool_response>" in plain.prompt()
    chunks = plain.says(FORMATS[servers.PLAIN]).stream("/v1/responses", {"input": "Hi", "tools": [tool]})
    done = next(c for c in chunks if c["type"] == "response.function_call_arguments.done")
    assert json.loads(done["arguments"]) == {"city": "Zürich"}


def test_messages(plain: Server) -> None:
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}  # type: ignore[index]
    body: dict[str, Any] = {
        "max_tokens": 100,
        "system": "Be kind",
        "messages": [{"role": "user", "content": "Hi"}],
    }
    answer = plain.says("Hello.").ok("/v1/messages", body)
    assert answer["content"] == [{"type": "text", "text": "Hello."}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert answer["usage"]["cache_read_input_tokens"] == 1
    cut = plain.ok("/v1/messages", {**body, "stop_sequences": ["lo"]})
    assert (cut["content"][0]["text"], cut["stop_reason"], cut["stop_sequence"]) == (
        "Hel",
        "stop_sequence",
        "lo",
    )
    use = plain.says(FORMATS[servers.PLAIN]).ok("/v1/messages", {**body, "tools": [tool]})
    assert use["stop_reason"] == "tool_use"
    (block,) = use["content"]
    assert block["input"] == {"city": "Zürich"}
    result = {
        "type": "tool_result",
        "tool_use_id": block["id"],
        "content": [{"type": "text", "text": "sunny"}],
    }
    turns = [
        *body["messages"],
        {"role": "assistant", "content": [block]},
        {"role": "user", "content": [result]},
    ]
    plain.says("Sunny").ok("/v1/messages", {**body, "messages": turns})
    assert "sunny" in plain.prompt()
    kinds = [chunk["type"] for chunk in plain.says("Hi").stream("/v1/messages", body)]
    assert kinds == ["message_start", "content_block_start", "content_block_delta", "content_block_delta",
                     "content_block_stop", "message_delta", "message_stop"]  # fmt: skip
    count = plain.ok("/v1/messages/count_tokens", {key: body[key] for key in ("system", "messages")})
    assert count == {"input_tokens": len(plain.request.prompt)}
    for wrong in ({"max_tokens": 0}, {"thinking": {"type": "enabled", "budget_tokens": 100}}, {"x": 1}):
        response = plain.post("/v1/messages", {**body, **wrong})
        assert response.status_code == 400
        assert response.json()["type"] == "error"
        assert next(iter(wrong)) in response.json()["error"]["message"]


def test_tokens_and_templates(plain: Server) -> None:
    assert plain.ok("/tokenize", {"content": "a<|end|>"}) == {"tokens": [97, 257]}
    assert plain.ok("/tokenize", {"content": "<|end|>", "parse_special": False})["tokens"][0] == 60
    pieces = plain.ok("/tokenize", {"content": "aé", "with_pieces": True})["tokens"]
    assert pieces == [{"id": 97, "piece": "a"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]
    assert plain.ok("/detokenize", {"tokens": [97, 257]}) == {"content": "a<|end|>"}
    assert plain.ok("/apply-template", HELLO) == {"prompt": "<|start|>user\nHi<|end|><|start|>assistant\n"}


def test_props_slots_and_metrics(plain: Server) -> None:
    props = plain.client.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 1000
    assert props["tools"] == "system message"
    assert plain.client.get("/slots").json()[0]["phase"] == "decode"
    plain.says("x").chat()
    response = plain.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = dict(line.rsplit(" ", 1) for line in response.text.splitlines() if not line.startswith("#"))
    assert samples["krafla_up"] == "1"
    assert int(samples[f'krafla_http_requests_total{{path="{CHAT}",method="POST",status="200"}}']) > 0
    assert samples["krafla_kv_pages_used"] == "3"
    assert samples['krafla_time_to_first_token_seconds_bucket{le="0.025"}'] == "0"
    assert samples['krafla_time_to_first_token_seconds_bucket{le="+Inf"}'] == "1"
    names = [line.split()[2] for line in response.text.splitlines() if line.startswith("# TYPE")]
    assert len(set(names)) == len(names)


# ---- Around requests ----


def test_keys_cors_names_and_ids(folder: Path) -> None:
    script = Script()
    options = {
        "api_keys": ("s1", "s2"),
        "cors": ("https://page.example",),
        "strict_model": True,
        "alias": "mine",
    }
    with scripted(small(folder), script, **options) as url:
        for headers in (
            {},
            {"authorization": "Bearer no"},
            {"authorization": "Basic s1"},
            {"x-api-key": "é"},
        ):
            values = {key: value.encode() for key, value in headers.items()}
            response = httpx.get(url + "/v1/models", headers=values)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == "invalid_api_key"
        for path in ("/metrics", "/props", "/slots", "/openapi.json", "/v1/models"):
            assert httpx.get(url + path).status_code == 401
            assert httpx.get(url + path, headers={"x-api-key": "s2"}).status_code == 200
        assert httpx.get(url + "/health").status_code == 200
        key = {"authorization": "Bearer s1", "origin": "https://page.example", "x-request-id": "mine-1"}
        response = httpx.post(url + CHAT, json={**HELLO, "model": "mine"}, headers=key)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://page.example"
        assert response.headers["x-request-id"] == "mine-1"
        assert response.json()["id"] == "chatcmpl-mine-1"
        response = httpx.post(url + CHAT, json={**HELLO, "model": "other"}, headers=key)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
        asked = {"origin": "https://page.example", "access-control-request-method": "POST"}
        assert httpx.options(url + CHAT, headers=asked).status_code == 200
        assert (
            httpx.options(url + CHAT, headers={**asked, "origin": "https://else.example"}).status_code == 400
        )


def test_bodies_and_times_have_limits(folder: Path) -> None:
    script = Script(answer=lambda request: None)
    with scripted(small(folder), script, max_body=2000, request_timeout=0.3) as url:
        big = json.dumps({**HELLO, "user": "x" * 2000}).encode()
        kind = {"content-type": "application/json"}
        for content in (big, iter([big[:1000], big[1000:]])):  # with its length told, and without
            response = httpx.post(url + CHAT, content=content, headers=kind)
            assert response.status_code == 413
            assert response.json()["error"]["code"] == "body_too_large"
        response = httpx.post(url + CHAT, json=HELLO)
        assert response.status_code == 408
        assert response.json()["error"]["code"] == "timeout"
        chunks = events(httpx.post(url + CHAT, json={**HELLO, "stream": True}).text)
        assert chunks[-2]["error"]["code"] == "timeout"


def test_a_body_that_does_not_come(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.1)
    with scripted(small(folder), Script()) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123".encode())
            assert b" 408 " in client.recv(4096)


def test_health_while_loading_and_after_a_failure(folder: Path, tmp_path: Path) -> None:
    script = Script()
    script.loading.clear()
    with scripted(small(folder), script, wait=False) as url:
        response = httpx.get(url + "/health")
        assert (response.status_code, response.json()["status"]) == (503, "loading")
        assert response.headers["retry-after"]
        assert httpx.post(url + CHAT, json=HELLO).status_code == 503
        script.loading.set()
        wait_until(lambda: httpx.get(url + "/health").status_code == 200)
    (tmp_path / "broken.mlb").write_bytes(b"MLB1 and nonsense")
    options = ServiceOptions(SchedulerOptions(model=tmp_path / "broken.mlb"))
    with servers.live(Service(options), wait=False) as url:
        wait_until(lambda: httpx.get(url + "/health").json()["status"] == "failed", 60)
        response = httpx.get(url + "/health")
        assert response.status_code == 503
        assert "broken.mlb" in response.json()["error"]["message"]
        response = httpx.post(url + CHAT, json=HELLO)
        assert response.status_code == 503
        assert "broken.mlb" in response.json()["error"]["message"]


def test_a_template_that_does_not_work_is_a_failure_to_load(tmp_path: Path) -> None:
    script = Script()
    with scripted(small(tmp_path, "{% for m in %}"), script, wait=False) as url:
        wait_until(lambda: httpx.get(url + "/health").json()["status"] == "failed")
        message = httpx.get(url + "/health").json()["error"]["message"]
        assert message.startswith("small.mlb: the chat template cannot be compiled: ")


def test_a_model_without_a_template(tmp_path: Path) -> None:
    script = Script()
    with scripted(small(tmp_path, None), script) as url, Server(url, script) as server:
        assert server.refusal(CHAT, HELLO)["code"] == "no_chat_template"
        assert server.ok("/v1/completions", {"prompt": "a"})["choices"][0]["text"] == "Hello"


def test_a_template_refuses_a_conversation(tmp_path: Path) -> None:
    script = Script()
    with scripted(small(tmp_path, servers.GEMMA), script) as url, Server(url, script) as server:
        body = {"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]}
        error = server.refusal(CHAT, body)
        assert error["code"] == "template_error"
        assert "no system role" in error["message"]
    with scripted(small(tmp_path, servers.UNKNOWN), script) as url, Server(url, script) as server:
        assert server.refusal(CHAT, {**HELLO, "tools": [WEATHER]})["param"] == "tools"
        assert server.chat()["choices"][0]["message"]["content"] == "Hello"


def test_logs_are_json_with_ids(plain: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "krafla.access"):
        plain.says("Hello").post(CHAT, HELLO, **{"x-request-id": "abc"})
        wait_until(lambda: caplog.records)
    entry = json.loads(middleware.JsonLines().format(caplog.records[-1]))
    assert entry["request_id"] == "abc"
    assert (entry["method"], entry["path"], entry["status"]) == ("POST", CHAT, 200)
    assert (entry["prompt_tokens"], entry["completion_tokens"], entry["finish"]) == (20, 5, "stop")


def test_running_streams_end_when_the_server_does(folder: Path) -> None:
    script = Script(answer=lambda request: None)
    with scripted(small(folder), script, keep_alive=0.1) as url:
        received: list[str] = []

        def read() -> None:
            with httpx.stream("POST", url + CHAT, json={**HELLO, "stream": True}, timeout=20) as response:
                received.extend(response.iter_lines())

        reader = threading.Thread(target=read)
        reader.start()
        wait_until(lambda: script.tickets)
        threading.Timer(0.2, script.tickets[0].cancel).start()
        reader.join(20)
    assert not reader.is_alive()
    assert "closing" in received[-4]


def test_the_docs_are_up_to_date(tmp_path: Path) -> None:
    """`python -m krafla.runtime.server.docs` writes them."""
    page = tmp_path / "server-api.md"
    page.write_bytes(docs.PAGE.read_bytes())
    docs.write(page)
    assert page.read_bytes() == docs.PAGE.read_bytes()
    text = page.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in schema.INERT)


def test_every_route_is_in_the_docs() -> None:
    text = docs.PAGE.read_text(encoding="utf-8")
    paths = create_app(Service(ServiceOptions())).openapi()["paths"]
    assert len(paths) > 12
    assert not any("422" in operation["responses"] for path in paths.values() for operation in path.values())
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path.replace('name', 'id')}`" in text


def test_docs_name_every_field() -> None:
    for module in (schema, schema_responses, schema_messages):
        for name, value in vars(module).items():
            if name.endswith("Request") and isinstance(value, type):
                for field in value.model_fields.values():  # type: ignore[attr-defined]
                    assert field.description or name in (
                        "TokenizeRequest",
                        "DetokenizeRequest",
                        "TemplateRequest",
                    )

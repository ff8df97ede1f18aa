"""The clients that people use, as they are, against one live server with SmolLM2."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the serve extra is not installed")
httpx = pytest.importorskip("httpx", reason="the clients extra is not installed")
openai = pytest.importorskip("openai", reason="the clients extra is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="the clients extra is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from pydantic import BaseModel
from schemathesis import GenerationMode

from krafla.runtime.model import Model
from krafla.runtime.server.scheduler import SchedulerOptions
from krafla.runtime.server.service import Service, ServiceOptions
from tests.servers import live, small
from tests.tokenizer_tools import smollm2_values

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
QUESTION: list[Any] = [{"role": "user", "content": "Why is the sky blue?"}]
WEATHER_PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": WEATHER_PARAMETERS}}
ASK_WEATHER: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    service = Service(ServiceOptions(SchedulerOptions(ctx=1024, parallel=8)))
    with live(service) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as opened:
        yield opened


def test_openai_chat(client: Any) -> None:
    answer = client.chat.completions.create(model="any", messages=QUESTION, max_tokens=30)
    text = answer.choices[0].message.content
    assert "sky" in text
    chunks = list(
        client.chat.completions.create(
            model="any", messages=QUESTION, max_tokens=30, stream=True, stream_options={"include_usage": True}
        )
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == text
    usage = chunks[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )
    assert usage.prompt_tokens_details.cached_tokens > 0
    assert answer.system_fingerprint == chunks[0].system_fingerprint
    (card,) = client.models.list().data
    assert client.models.retrieve(card.id).id == answer.model == card.id


def test_openai_seeds_and_logprobs(client: Any) -> None:
    def ask(**more: Any) -> Any:
        fields = {
            "temperature": 0.9,
            "seed": 7,
            "max_tokens": 12,
            "logprobs": True,
            "top_logprobs": 3,
            **more,
        }
        return client.chat.completions.create(model="any", messages=QUESTION, **fields).choices

    first, again, three = ask()[0], ask()[0], ask(n=3)
    assert first.logprobs == again.logprobs == three[0].logprobs
    assert len({choice.message.content for choice in three}) > 1
    assert "".join(entry.token for entry in first.logprobs.content) == first.message.content
    assert ask(seed=8)[0].message.content != first.message.content


def test_openai_tools(client: Any) -> None:
    fields: dict[str, Any] = {
        "model": "any", "messages": ASK_WEATHER, "tools": [WEATHER], "tool_choice": "required",
        "parallel_tool_calls": False, "max_tokens": 60,
    }  # fmt: skip
    answer = client.chat.completions.create(**fields).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls
    assert call.function.name == "weather"
    arguments = json.loads(call.function.arguments)
    assert arguments.keys() == {"city"}
    with client.chat.completions.stream(**fields) as stream:
        final = stream.get_final_completion().choices[0]
    assert json.loads(final.message.tool_calls[0].function.arguments) == arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "20 degrees and sunny"}
    conversation = [*ASK_WEATHER, answer.message, result]
    answer = client.chat.completions.create(
        model="any", messages=conversation, tools=[WEATHER], max_tokens=30
    )
    assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_openai_parses_a_schema(client: Any) -> None:
    messages: Any = [{"role": "user", "content": "Ada is 36 years old. Answer in JSON."}]
    fields = {"model": "any", "messages": messages, "max_tokens": 80, "response_format": Person}
    person = client.chat.completions.parse(**fields).choices[0].message.parsed
    assert isinstance(person, Person)


def test_openai_embeddings(client: Any) -> None:
    texts = ["A cat sat on the mat.", "A kitten sat on a rug.", "Interest rates rose."]
    # The client asks for base64 unless told otherwise.
    vectors = np.array([entry.embedding for entry in client.embeddings.create(model="any", input=texts).data])
    floats = client.embeddings.create(model="any", input=texts[0], encoding_format="float").data[0].embedding
    assert np.allclose(vectors[0], floats, atol=0)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_openai_completions(client: Any) -> None:
    fields = {"model": "any", "prompt": "The capital of France is", "max_tokens": 3}
    answer = client.completions.create(**fields, echo=True, logprobs=2).choices[0]
    assert answer.text.startswith("The capital of France is Paris")
    logprobs = answer.logprobs
    assert "".join(logprobs.tokens) == answer.text
    assert [
        answer.text[at:].startswith(token)
        for at, token in zip(logprobs.text_offset, logprobs.tokens, strict=True)
    ]
    assert logprobs.token_logprobs[0] is None
    assert all(value <= 0 for value in logprobs.token_logprobs[1:])
    streamed = client.completions.create(**fields, stream=True)
    assert fields["prompt"] + "".join(chunk.choices[0].text for chunk in streamed) == answer.text


def test_openai_responses(client: Any) -> None:
    # An answer that ends by itself: the client's streams insist on it.
    fields: dict[str, Any] = {"model": "any", "input": "What is 2+2?", "max_output_tokens": 100}
    answer = client.responses.create(**fields)
    assert answer.status == "completed"
    assert "4" in answer.output_text
    with client.responses.stream(**fields) as stream:
        kinds = {event.type for event in stream}
        assert stream.get_final_response().output_text == answer.output_text
    assert "response.output_text.delta" in kinds
    tool = {"type": "function", "name": "weather", "parameters": WEATHER_PARAMETERS, "strict": True}
    fields |= {"input": ASK_WEATHER, "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    (call,) = client.responses.create(**fields).output
    assert json.loads(call.arguments).keys() == {"city"}
    parsed = client.responses.parse(
        model="any", input="Ada is 36. JSON.", text_format=Person, max_output_tokens=80
    )
    assert isinstance(parsed.output_parsed, Person)


def test_openai_errors(client: Any) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="any", messages=QUESTION, temperature=9)
    assert (error.value.param, error.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="any", prompt="a " * 3000)
    assert error.value.code == "context_length_exceeded"
    assert "1024" in error.value.message


def test_anthropic(url: str) -> None:
    anthropic = pytest.importorskip("anthropic")
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        fields: dict[str, Any] = {"model": "any", "max_tokens": 60, "messages": QUESTION}
        answer = client.messages.create(**fields)
        assert "sky" in answer.content[0].text
        with client.messages.stream(**fields) as stream:
            assert "".join(stream.text_stream) == answer.content[0].text
        tool = {"name": "weather", "input_schema": WEATHER_PARAMETERS}
        choice = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
        fields |= {"messages": ASK_WEATHER, "tools": [tool], "tool_choice": choice}
        with client.messages.stream(**fields) as stream:
            final = stream.get_final_message()
        assert final.stop_reason == "tool_use"
        assert final.content[0].input.keys() == {"city"}
        assert client.messages.count_tokens(
            model="any", messages=QUESTION
        ).input_tokens == answer.usage.input_tokens + (answer.usage.cache_read_input_tokens)


def test_langchain(url: str) -> None:
    langchain_openai = pytest.importorskip("langchain_openai")
    chat = langchain_openai.ChatOpenAI(
        base_url=f"{url}/v1", api_key="any", model="any", max_tokens=60, temperature=0
    )
    assert "sky" in chat.invoke("Why is the sky blue?").content
    assert "sky" in "".join(chunk.content for chunk in chat.stream("Why is the sky blue?"))
    bound = chat.bind_tools([WEATHER], tool_choice="weather", parallel_tool_calls=False)
    (call,) = bound.invoke("What is the weather in Paris?").tool_calls
    assert call["name"] == "weather"
    assert call["args"].keys() == {"city"}
    for method in ("json_schema", "function_calling"):
        person = chat.with_structured_output(Person, method=method).invoke(
            "Ada is 36 years old. Answer in JSON."
        )
        assert isinstance(person, Person)


def test_llm(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    llm = pytest.importorskip("llm")
    entry = f"- model_id: local\n  model_name: any\n  api_base: {url}/v1\n"
    (tmp_path / "extra-openai-models.yaml").write_text(entry)
    model = llm.get_model("local")
    model.key = "any"
    whole = model.prompt("Why is the sky blue?", stream=False, max_tokens=30).text()
    assert "sky" in whole
    assert "".join(model.prompt("Why is the sky blue?", stream=True, max_tokens=30)) == whole


def test_litellm(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    where = {"api_base": f"{url}/v1", "api_key": "any", "model": "openai/any"}
    answer = litellm.completion(**where, messages=QUESTION, max_tokens=30)
    assert "sky" in answer.choices[0].message.content
    chunks = litellm.completion(**where, messages=QUESTION, max_tokens=30, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == answer.choices[0].message.content
    call = litellm.completion(**where, messages=ASK_WEATHER, tools=[WEATHER], tool_choice="required",
                              parallel_tool_calls=False, max_tokens=60).choices[0].message.tool_calls[0]  # fmt: skip
    assert json.loads(call.function.arguments).keys() == {"city"}
    assert len(litellm.embedding(**where, input=["a"]).data[0]["embedding"]) == 576


def test_streams_that_are_left(url: str, client: Any) -> None:
    """Half of the clients leave: the others' answers are what they are alone, and nothing goes on running."""

    def ask(number: int) -> list[Any]:
        return [{"role": "user", "content": f"Tell me a story about the number {number}."}]

    def read(number: int) -> str:
        fields = {
            "model": "any",
            "messages": ask(number),
            "max_tokens": 25,
            "temperature": 0.8,
            "seed": number,
        }
        pieces = []
        with client.chat.completions.create(**fields, stream=True) as stream:
            for chunk in stream:
                pieces.append(chunk.choices[0].delta.content or "")
                if number % 2 and len(pieces) > number:
                    break
        return "".join(pieces)

    alone = [read(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(read, range(8)))
    assert together == alone
    with httpx.Client(base_url=url) as http:
        for _ in range(200):
            if not http.get("/slots").json():
                break
            time.sleep(0.05)
        assert http.get("/slots").json() == []
        samples = dict(
            line.rsplit(" ", 1) for line in http.get("/metrics").text.splitlines() if line[0] != "#"
        )
        assert samples["krafla_kv_pages_used"] == samples["krafla_kv_pages_cached"]
        assert int(samples['krafla_requests_finished_total{reason="cancelled"}']) >= 8


def save_tokenizer(folder: Path) -> None:
    """SmolLM2's tokenizer as transformers reads it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    values = smollm2_values()
    tokens, merges = values["ggml.tokens"], values["ggml.merges"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level]
    )
    tokenizer.decoder = decoders.ByteLevel()
    added = values["ggml.token_type"].count(3)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in tokens[:added]])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": tokens[2]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_lm_evaluation_harness(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "hf"))
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    pytest.importorskip("transformers", reason="the parity extra is not installed")
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.tasks import TaskManager

    rows = [
        ("The capital of France is", " Paris"),
        ("One and one makes", " seventeen apples"),
        ("Ünal said:", " Güzel!"),
    ]
    data = "\n".join(json.dumps({"text": text, "target": target}) for text, target in rows)
    (tmp_path / "rows.jsonl").write_text(data)
    (tmp_path / "tiny.yaml").write_text(
        "task: tiny\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
        f"    test: {tmp_path / 'rows.jsonl'}\ntest_split: test\noutput_type: loglikelihood\n"
        'doc_to_text: "{{text}}"\ndoc_to_target: "{{target}}"\ntarget_delimiter: ""\n'
        "metric_list:\n  - metric: acc\n    aggregation: mean\n    higher_is_better: true\n"
    )
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    save_tokenizer(tokenizer)
    result = lm_eval.simple_evaluate(
        model="local-completions",
        model_args=f"model=any,base_url={url}/v1/completions,tokenizer={tokenizer},tokenizer_backend=huggingface",
        tasks=["tiny"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    samples = sorted(result["samples"]["tiny"], key=lambda sample: sample["doc_id"])
    with Model.load(ctx=128) as model:
        for (text, target), sample in zip(rows, samples, strict=True):
            ((found, greedy),) = (
                sample["resps"][0] if isinstance(sample["resps"][0][0], tuple) else sample["resps"]
            )
            head, ids = model.encode(text, bos=False), model.encode(text + target, bos=False)
            assert ids[: len(head)] == head
            logits = model.logits(ids).astype(np.float64)
            rest = np.arange(len(head), len(ids))
            shifted = logits[rest - 1] - logits[rest - 1].max(axis=1, keepdims=True)
            expected = shifted[np.arange(len(rest)), np.array(ids)[rest]] - np.log(
                np.exp(shifted).sum(axis=1)
            )
            assert found == pytest.approx(expected.sum(), abs=1e-5)
            assert greedy == (logits[rest - 1].argmax(axis=1) == np.array(ids)[rest]).all()


@pytest.fixture(scope="module")
def api_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A small random model, short answers: what comes in matters here."""
    path = small(tmp_path_factory.mktemp("fuzz"))
    scheduler = SchedulerOptions(model=path, threads=1, ctx=512)
    options = ServiceOptions(scheduler, max_tokens=3, request_timeout=20)
    with live(Service(options)) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_breaks_the_server(api_schema: Any, mode: GenerationMode) -> None:
    """Requests that fit the schema, and requests that do not."""
    tried = set()
    for result in api_schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=15,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def attempt(case: Any) -> None:
            response = case.call()
            assert response.status_code < 500, (case, response.text)
            assert response.status_code < 400 or "error" in response.json()

        with contextlib.suppress(Unsatisfiable):  # nothing can be wrong with a request that has no parts
            attempt()
        tried.add(operation.path)
    assert tried >= {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize"}

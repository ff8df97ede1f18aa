"""What an answer may be, as a grammar that llguidance turns into the tokens that may come next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from krafla.runtime.server.calls import CallFormat, Tool, json_rule, quoted
from krafla.runtime.server.errors import refuse
from krafla.tools.errors import KraflaError

if TYPE_CHECKING:
    import numpy.typing as npt
    from llguidance import LLMatcher

#: Whether an answer begins with thoughts: never, if the model likes, or the prompt has opened them already.
Thinking = Literal["no", "may", "open"]
KEPT = 32
#: The tokens of a text that goes on from another.
Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Shape:
    """What the answer to one request must look like."""

    thinking: Thinking = "no"
    schema: dict[str, Any] | None = None  # of the answer's content
    tools: Sequence[Tool] = ()
    calls: CallFormat | None = None  # how tools are called
    must_call: bool = False
    parallel: bool = True

    def grammar(self) -> str | None:
        """In llguidance's Lark; None if everything goes. ApiError names a schema that cannot be enforced."""
        if self.calls is None and self.schema is None:
            return None
        rules = [r"TEXT: /(.|\n)*/", 'think[lazy]: TEXT "</think>"', r"SPACE: /[ \n]{0,4}/"]
        rules.append('xml_text[lazy]: TEXT "\\n</parameter>\\n"')
        answer = self._answer(rules)
        if self.thinking == "open":
            answer = f"think SPACE {answer}"
        elif self.thinking == "may":
            answer = f'"<think>" think SPACE {answer} | {self._answer_without_thoughts(answer, rules)}'
        return "\n".join([f"start: {answer}", *rules])

    def _answer(self, rules: list[str]) -> str:
        content = None if self.schema is None else json_rule(self.schema, "response_format")
        if self.calls is None:
            rules.append(f"content: {content}")
            return "content"
        self._add_calls(self.calls, rules)
        if self.must_call:
            return "calls"
        if content is not None:
            if self.calls.leading:
                raise refuse("response_format", "does not go with this model's form of tool calls")
            rules.append(f"content: {content}")
            return "(content | calls)"
        return self._free(rules, "")

    def _answer_without_thoughts(self, answer: str, rules: list[str]) -> str:
        if "free" not in answer:
            return answer
        return self._free(rules, "0")

    def _add_calls(self, form: CallFormat, rules: list[str]) -> None:
        bodies = [form.body(i, tool, rules) for i, tool in enumerate(self.tools)]
        rules.append(f"call: {' | '.join(bodies)}")
        opening, closing = _maybe(form.opening), _maybe(form.closing)
        if form.leading:
            opening = ""
        one = f"{opening} call {closing}"
        between = quoted(form.between)
        if not self.parallel or form.single:
            rules.append(f"calls: {one}")
        elif form.listed:
            rules.append(f"calls: {opening} call ({between} call)* {closing}")
        else:
            rules.append(f"calls: {one} ({between} {one})*")

    def _free(self, rules: list[str], mark: str) -> str:
        """Text with calls in it; with a mark, text that does not begin with thoughts."""
        form = self.calls
        assert form is not None
        first = f"TEXT{mark}"
        if mark:
            rules.append(r"TEXT0: /(.|\n)*/ & ~/<think>(.|\n)*/")
        if form.leading:
            rules.append(rf"PLAIN{mark}: /[^{{](.|\n)*/" + (r" & ~/<think>(.|\n)*/" if mark else ""))
            rules.append(f"free{mark}: calls | PLAIN{mark} |")
            return f"free{mark}"
        rest = _maybe(form.opening[len(form.trigger) :])
        repeated = f"({quoted(form.between)} call)*" if form.listed and self.parallel else ""
        body = f"{rest} call {repeated} {_maybe(form.closing)}"
        again = "tagged* TEXT" if self.parallel and not form.listed else ""
        rules.append(f"trigger{mark}[lazy]: {first} {quoted(form.trigger)}")
        rules.append(f"free{mark}: {first} | trigger{mark} {body} {again}")
        if not mark:
            rules.append(f"tagged: trigger {body}")
        return f"free{mark}"


def _maybe(text: str) -> str:
    return quoted(text) if text else ""


class Grammars:
    """Compiles grammars for one model's tokens. For one thread at a time."""

    def __init__(
        self, tokens: Sequence[bytes], special: Sequence[int], eos: Sequence[int], encode: Encode
    ) -> None:
        from llguidance import LLTokenizer

        vocabulary: Any = _Vocabulary(tokens, special, eos, encode)
        self._tokenizer = LLTokenizer(vocabulary, n_vocab=len(tokens), eos_token=list(eos))
        self._kept: OrderedDict[str, LLMatcher] = OrderedDict()

    def compile(self, grammar: str, param: str) -> LLMatcher:
        """A matcher at its start; ApiError about the field `param` if this cannot be enforced."""
        from llguidance import LLMatcher

        matcher = self._kept.get(grammar)
        if matcher is None:
            wrong, messages = LLMatcher.validate_grammar_with_warnings(grammar, self._tokenizer)
            if not wrong and not messages:
                matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
                messages = [matcher.get_error()] if matcher.is_error() else []
            if messages or matcher is None:
                raise refuse(param, f"cannot be enforced: {_first_line(messages)}", "unsupported_schema")
            self._kept[grammar] = matcher
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return matcher.deep_copy()


def _first_line(messages: Sequence[str]) -> str:
    return " ".join(" ".join(messages).split())[:300]


class _Vocabulary:
    """What llguidance asks of a tokenizer. Text that must come is let through as `encode` makes it, no other way."""

    is_tokenizer_wrapper = True

    def __init__(
        self, tokens: Sequence[bytes], special: Sequence[int], eos: Sequence[int], encode: Encode
    ) -> None:
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = eos[0]
        self.bos_token_id = None
        self._encode = encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode("utf-8", "replace"))


class Constraint:
    """The scheduler's Grammar over a matcher."""

    def __init__(self, matcher: LLMatcher, vocab: int) -> None:
        self._matcher = matcher
        self._words = np.zeros((vocab + 31) // 32, np.uint32)

    def mask(self) -> npt.NDArray[np.uint32]:
        """The tokens that may come next, one bit each."""
        self._matcher.unsafe_compute_mask_ptr(self._words.ctypes.data, self._words.nbytes)
        self._check()
        return self._words

    def accept(self, token: int) -> None:
        """Go on past a token."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def finished(self) -> bool:
        """Whether nothing can follow."""
        return bool(self._matcher.is_stopped())

    def _check(self) -> None:
        if self._matcher.is_error():
            raise KraflaError(f"the grammar cannot go on: {self._matcher.get_error()}")

"""One step after the other: which rows go through the model, what becomes of their logits, whose pages they take."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from krafla.runtime.batch import Batch
from krafla.runtime.draft_model import Ask, DraftModel
from krafla.runtime.server.prefix_cache import PrefixCache
from krafla.runtime.server.request import Reason, Ticket
from krafla.runtime.server.running import NONE, Answer, GrammarError, shared
from krafla.runtime.speculate import NgramDraft

if TYPE_CHECKING:
    from krafla.runtime.batch import Floats, Rows
    from krafla.runtime.server.statistics import Counters


@dataclass(frozen=True)
class Part:
    """The rows that one answer has in a step: `count` pending tokens, then its drafts."""

    answer: Answer
    count: int


class Steps:
    """The engine's thread's own state: nothing here is called from another thread, reading apart.

    A step takes the last token of every answer that is being written, with drafts if there are any, and as many
    tokens of prompts as there is room for. Prompts share that room: short ones are through soon, long ones get
    what is left. If pages run out, the prefix cache gives up some; then the youngest answer gives up its place,
    to go on later where it was.
    """

    def __init__(
        self,
        batch: Batch,
        parallel: int,
        counters: Counters,
        ngram: bool = False,
        draft: DraftModel | None = None,
        caching: bool = True,
    ) -> None:
        self.batch = batch
        self.cache = PrefixCache(batch)
        self.waiting: deque[Answer] = deque()
        self.running: list[Answer] = []
        self.typical_seconds = 1.0
        self.pages_used = 0
        self._parallel = parallel
        self._counters = counters
        self._ngram = ngram
        self._draft = draft
        self._caching = caching

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.waiting or self.running)

    def add(self, ticket: Ticket) -> None:
        """Take a request into the queue."""
        answer = Answer(ticket, self.batch)
        if self._ngram and not self._draft:
            answer.draft = NgramDraft()
        self.waiting.append(answer)

    def step(self) -> None:
        """Admit what can be admitted, then run one step."""
        self._sweep()
        self._admit()
        self._propose()
        parts, rows = self._fitting_plan()
        if parts:
            self._run(parts, rows)
        self._count_pages()

    def end_all(self, reason: Reason, error: str | None = None) -> None:
        """End every request."""
        for answer in [*self.running, *self.waiting]:
            self._finish(answer, reason, error)

    def close(self) -> None:
        """Release what is held in the engine."""
        self.cache.clear()
        if self._draft:
            self._draft.close()

    def _count_pages(self) -> None:
        self.pages_used = self.batch.pages - self.batch.free_pages()
        self._counters.evicted_pages = self.cache.evicted

    def _sweep(self) -> None:
        now = time.monotonic()
        for answer in [*self.running, *self.waiting]:
            if reason := answer.overdue(now):
                self._finish(answer, reason)

    def _admit(self) -> None:
        """Let requests run, in their order; one that another's prompt is about to serve is passed over."""
        for answer in list(self.waiting):
            if len(self.running) >= self._parallel:
                return
            reusable = answer.reusable if self._caching else 0
            path, length = self.cache.match(answer.ids[:reusable])
            if self._caching and self._served_soon(answer, length):
                continue
            whole = self.cache.pin(path, length)
            if self.running and not self._fits(answer, len(whole)):
                self.cache.unpin(whole)
                return
            self.waiting.remove(answer)
            answer.sequence, cached = self.batch.resume([node.page for node in path], length)
            keep = cached // self.batch.page
            self.cache.unpin(whole[keep:])
            answer.path = whole[:keep]
            if answer.cached == NONE:
                self._counters.prompt_tokens += answer.n_prompt
                self._counters.cached_tokens += cached
            answer.start(cached)
            self.running.append(answer)

    def _served_soon(self, answer: Answer, length: int) -> bool:
        """Whether a prompt that is being read has at least one page more of this one than the cache has."""
        page = self.batch.page
        for other in self.running:
            if other.decoding or other.request.embed:
                continue
            common = min(shared(answer.ids, other.ids, page), answer.reusable // page * page)
            if common >= length + page and common > other.done:
                return True
        return False

    def _fits(self, answer: Answer, whole: int) -> bool:
        """Whether there are pages for a request beside those that are promised already."""
        size = self.batch.page
        promised = sum(_pages(len(a.ids), size) - _pages(a.done, size) + 1 for a in self.running)
        needed = _pages(len(answer.ids), size) - whole + 1
        return needed + promised <= self.batch.free_pages() + self.cache.evictable

    def _propose(self) -> None:
        if not self._draft and not self._ngram:
            return
        room = self.batch.config.batch - len(self.running)
        drafting = [answer for answer in self.running if answer.decoding]
        for answer in self.running:
            answer.drafts = []
        if not drafting or room <= 0:
            return
        limits = {id(a): min(room // len(drafting), a.limit - a.completion - 1) for a in drafting}
        if self._draft:
            asks = [
                Ask(a.ticket.number, a.ids, limits[id(a)], a.request.sampling, a.choice.sampler)
                for a in drafting
            ]
            guesses = self._draft.propose(asks)
            for answer in drafting:
                answer.drafts = guesses.get(answer.ticket.number, [])
        for answer in drafting:
            if answer.draft and limits[id(answer)] > 0:
                answer.drafts = answer.guess(limits[id(answer)])

    def _plan(self) -> list[Part]:
        parts = [Part(answer, 1) for answer in self.running if answer.decoding]
        room = self.batch.config.batch - sum(1 + len(part.answer.drafts) for part in parts)
        reading = sorted((a for a in self.running if not a.decoding), key=lambda answer: answer.pending)
        room = max(room, self.batch.config.batch // 4, 1) if reading else 0
        for i, answer in enumerate(reading):
            count = min(answer.pending, max(room // (len(reading) - i), 1), room)
            room -= count
            if count:
                parts.append(Part(answer, count))
        return parts

    def _fitting_plan(self) -> tuple[list[Part], Rows]:
        """The plan and its rows, after whatever it takes to have pages for them."""
        while self.running:
            parts = self._plan()
            rows = self._rows(parts)
            missing = self.batch.pages_needed(rows) - self.batch.free_pages()
            if missing <= 0:
                return parts, rows
            if self.cache.evict(missing):
                continue
            if any(part.answer.drafts for part in parts):
                for part in parts:
                    part.answer.drafts = []
            elif len(self.running) > 1:
                self._preempt(self.running[-1])
            elif not self.cache.evict(missing, pinned=True):
                raise MemoryError("one request has all pages, and they are not enough")
        return [], self._rows([])

    def _rows(self, parts: list[Part]) -> Rows:
        rows: list[tuple[int, int, int, int]] = []
        for part in parts:
            answer, start = part.answer, part.answer.done
            if part.count == 1 and not answer.drafts:
                rows.append((answer.sequence, start, answer.ids[start], answer.wanted(start, start + 1)[0]))
                continue
            tokens = answer.ids[start : start + part.count] + answer.drafts
            wants = answer.wanted(start, start + part.count) + [1] * len(answer.drafts)
            for i, (token, wanted) in enumerate(zip(tokens, wants, strict=True)):
                rows.append((answer.sequence, start + i, token, wanted))
        return np.array(rows, np.int32).reshape(-1, 4)

    def _run(self, parts: list[Part], rows: Rows) -> None:
        embedding = [part for part in parts if part.answer.request.embed]
        writing = [part for part in parts if not part.answer.request.embed]
        self._counters.steps += 1
        self._counters.rows += sum(part.count + len(part.answer.drafts) for part in parts)
        if embedding:
            self._embed(embedding)
        if not writing:
            return
        logits = self.batch.forward(self._rows(writing) if embedding else rows)
        choosing: list[tuple[Answer, Floats]] = []
        at = 0
        for part in writing:
            answer = part.answer
            wanted = sum(answer.wanted(answer.done, answer.done + part.count)) + len(answer.drafts)
            mine, at = logits[at : at + wanted], at + wanted
            answer.done += part.count
            if answer.request.prompt_logprobs is not None and len(answer.measured) < answer.n_prompt:
                count = min(len(mine), answer.n_prompt - len(answer.measured))
                answer.measure(self.batch, mine[:count])
                mine = mine[count:]
            self._keep_pages(answer)
            if answer.done < len(answer.ids):
                continue
            if answer.request.prompt_logprobs is not None and answer.n_prompt == 1 and not answer.completion:
                answer.tell_prompt()
            if answer.limit == 0:
                self._finish(answer, "length")
            else:
                choosing.append((answer, mine))
        self._choose(choosing)

    def _embed(self, parts: list[Part]) -> None:
        rows = self._rows(parts)
        states = self.batch.forward_states(rows)
        at = 0
        for part in parts:
            answer = part.answer
            wanted = sum(answer.wanted(answer.done, answer.done + part.count))
            answer.pool(states[at : at + wanted])
            at += wanted
            answer.done += part.count
            if answer.done == len(answer.ids):
                answer.tell_embedding()
                self._finish(answer, "stop")

    def _choose(self, choosing: list[tuple[Answer, Floats]]) -> None:
        """Choose the next tokens, and where drafts were right, those after them."""
        depth, going = 0, choosing
        while going:
            going = [pair for pair in going if self._prepared(pair[0])]
            self.batch.choose([(answer.choice, logits[depth]) for answer, logits in going])
            going = [pair for pair in going if self._taken(pair[0]) and self._goes_on(pair[0], depth)]
            depth += 1
        for answer, _ in choosing:
            if answer.sequence != NONE and answer.drafts:
                self._learn(answer)

    def _prepared(self, answer: Answer) -> bool:
        try:
            answer.prepare()
        except GrammarError as error:
            self._finish(answer, "failed", str(error))
            return False
        return True

    def _taken(self, answer: Answer) -> bool:
        """Hand on what was chosen; False if the answer ends with it."""
        before = answer.completion
        try:
            reason = answer.take()
        except GrammarError as error:
            self._finish(answer, "failed", str(error))
            return False
        if answer.completion > before:
            self._counters.completion_tokens += 1
            clock = self._counters.per_token if before else self._counters.first_token
            clock.add(answer.pace())
        if reason:
            self._finish(answer, reason)
        return reason is None

    def _goes_on(self, answer: Answer, depth: int) -> bool:
        """Whether the token just chosen is the next draft, so that its row's logits hold."""
        if depth < len(answer.drafts) and answer.drafts[depth] == answer.ids[-1]:
            answer.done += 1
            return True
        return False

    def _learn(self, answer: Answer) -> None:
        guessed = len(answer.drafts)
        right = guessed - (self.batch.length(answer.sequence) - answer.done)
        self._counters.drafted += guessed
        self._counters.accepted += right
        if self._draft:
            self._draft.learn(answer.ticket.number, guessed, right)
        elif answer.draft:
            answer.draft.learn(guessed, right)
        self.batch.truncate(answer.sequence, answer.done)

    def _keep_pages(self, answer: Answer) -> None:
        """Whole pages go into the prefix cache as soon as they are there."""
        whole = answer.done // self.batch.page
        if whole > len(answer.path):
            self._insert(answer, whole)

    def _insert(self, answer: Answer, count: int) -> None:
        if not self._caching:
            return
        pages = self.batch.pages_of(answer.sequence)[:count]
        path = self.cache.insert(answer.path, answer.ids[: answer.done], pages)
        pinned = self.cache.pin(path, len(path) * self.batch.page)
        self.cache.unpin(answer.path)
        answer.path = pinned

    def _release(self, answer: Answer) -> None:
        """Close its sequence; what it held stays in the prefix cache."""
        if answer.sequence == NONE:
            return
        if not answer.request.embed:
            if self.batch.length(answer.sequence) > answer.done:  # drafts that nobody asked for
                self.batch.truncate(answer.sequence, answer.done)
            self._insert(answer, _pages(answer.done, self.batch.page))
        self.cache.unpin(answer.path)
        answer.path = []
        self.batch.close(answer.sequence)
        answer.sequence, answer.done = NONE, 0
        if self._draft:
            self._draft.forget(answer.ticket.number)

    def _preempt(self, answer: Answer) -> None:
        """Back to the head of the queue."""
        self._counters.preemptions += 1
        self._release(answer)
        self.running.remove(answer)
        self.waiting.appendleft(answer)

    def _finish(self, answer: Answer, reason: Reason, error: str | None = None) -> None:
        self._release(answer)
        if answer in self.running:
            self.running.remove(answer)
        else:
            self.waiting.remove(answer)
        finished = self._counters.finished
        finished[reason] = finished.get(reason, 0) + 1
        if reason in ("stop", "length"):
            seconds = time.monotonic() - answer.ticket.submitted
            self.typical_seconds += 0.1 * (seconds - self.typical_seconds)
        self._count_pages()  # whoever reads the last event may look at them next
        answer.end(reason, error)


def _pages(length: int, size: int) -> int:
    return (length + size - 1) // size

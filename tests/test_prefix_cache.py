"""The prefix cache on pages that count their holders: what matches, what leaves, what is held."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from krafla.runtime.server.prefix_cache import Node, PrefixCache

SIZE = 4


class Pages:
    """Pages of four positions."""

    page = SIZE

    def __init__(self, linear: bool = False) -> None:
        self.linear = linear
        self.held: Counter[int] = Counter()

    def hold(self, page: int) -> None:
        self.held[page] += 1

    def drop(self, page: int) -> None:
        self.held[page] -= 1
        assert self.held[page] >= 0

    @property
    def count(self) -> int:
        return sum(self.held.values())


class Texts:
    """A cache, and texts put into it under new pages."""

    def __init__(self, linear: bool = False) -> None:
        self.pages = Pages(linear)
        self.cache = PrefixCache(self.pages)
        self.next = 0

    def put(self, text: list[int]) -> list[int]:
        """As a request does: match, go on with own pages, leave them; the pages it had."""
        path, length = self.cache.match(text)
        pinned = self.cache.pin(path, length)
        own = [node.page for node in pinned]
        while len(own) * SIZE < len(text):
            own.append(self.next)
            self.next += 1
        longer = self.cache.insert(pinned, text, own)
        again = self.cache.pin(longer, len(longer) * SIZE)
        self.cache.unpin(pinned)
        self.cache.unpin(again)
        assert self.cache.pinned == 0
        assert self.cache.held == self.pages.count
        return own

    def found(self, text: list[int]) -> int:
        return self.cache.match(text)[1]


def test_the_longest_prefix_to_the_token() -> None:
    texts = Texts()
    own = texts.put([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert texts.pages.count == 3
    path, length = texts.cache.match([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    assert ([node.page for node in path], length) == (own, 10)
    path, length = texts.cache.match([1, 2, 3, 4, 5, 6, 0])
    assert ([node.page for node in path], length) == (own[:2], 6)
    assert texts.cache.match([2, 2, 3, 4])[1] == 0
    assert texts.cache.match([]) == ([], 0)
    texts.put([1, 2, 3, 4, 9, 9, 9, 9])
    assert texts.found([1, 2, 3, 4, 9, 9, 5, 5]) == 6
    assert texts.found([1, 2, 3, 4, 5, 6, 7, 7]) == 7


def test_whole_pages_where_there_is_a_state() -> None:
    texts = Texts(linear=True)
    first = texts.put([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert texts.pages.count == 2
    assert texts.found([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) == 8
    assert texts.found([1, 2, 3, 4, 5, 6, 7, 9]) == 4
    texts.cache.insert([], [1, 2, 3, 4], [77])  # read again, because the copy of the state was gone
    assert texts.pages.held[77] == 1
    assert texts.pages.held[first[0]] == 0


def test_an_unfinished_page_grows() -> None:
    texts = Texts()
    texts.put([1, 2, 3, 4, 5])
    texts.put([1, 2, 3, 4, 5, 6, 7])
    assert texts.pages.count == 2
    texts.put([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert texts.pages.count == 3
    assert texts.found([1, 2, 3, 4, 5, 6, 7, 8, 9]) == 9
    texts.put([1, 2, 3, 4, 5, 6])  # nothing new
    assert texts.pages.count == 3


def test_the_least_recently_used_leaves_from_its_end() -> None:
    texts = Texts()
    a, b, c = ([10 * i + j for j in range(12)] for i in (1, 2, 3))
    for text in (a, b, c):
        texts.put(text)
    texts.put(a)
    assert texts.cache.evict(2) == 2
    assert [texts.found(text) for text in (a, b, c)] == [12, 4, 12]
    assert texts.cache.evict(2) == 2
    assert [texts.found(text) for text in (a, b, c)] == [12, 0, 8]
    assert texts.cache.evict(100) == 5
    assert texts.pages.count == 0
    assert texts.cache.evicted == 9


def test_one_page_texts_make_room_for_each_other() -> None:
    """A conversation of 16 pages outlives hundreds of them, a forgotten one not thousands."""
    texts = Texts()
    talk = list(range(64))
    texts.put(talk)
    for i in range(250):
        texts.put([1000 + i, 1])
        texts.cache.evict(max(texts.cache.held - 17, 0))
    assert texts.found(talk) == 64
    for i in range(5000):
        texts.put([9000 + i, 1])
        texts.cache.evict(max(texts.cache.held - 17, 0))
    assert texts.found(talk) < 64


def test_pinned_pages_stay() -> None:
    texts = Texts()
    texts.put(list(range(12)))
    path, length = texts.cache.match([*range(8), 99])
    pinned = texts.cache.pin(path, length)
    assert texts.cache.evictable == 1
    assert texts.cache.evict(10) == 1
    assert texts.found(list(range(12))) == 8
    assert texts.cache.evict(1, pinned=True) == 1
    assert texts.cache.evict(10) == 0
    texts.cache.unpin(pinned)
    assert (texts.cache.evictable, texts.cache.held) == (1, 1)
    texts.cache.clear()
    assert texts.pages.count == 0


@pytest.mark.parametrize("linear", [False, True])
def test_against_all_texts_that_were_put(linear: bool) -> None:
    """What matches is always a prefix of some text, its pages are held, and the counts add up."""
    rng = random.Random(1)
    texts = Texts(linear)
    put: list[list[int]] = []
    for _ in range(400):
        text = [rng.randrange(3) for _ in range(rng.randrange(1, 20))]
        if put and rng.random() < 0.5:
            text = [*rng.choice(put), *text[:6]]
        path, length = texts.cache.match(text)
        assert (len(path) - 1) * SIZE < max(length, 1) <= max(len(path) * SIZE, 1)
        assert all(texts.pages.held[node.page] for node in path)
        assert length == 0 or any(text[:length] == known[:length] for known in put)
        texts.put(text)
        put.append(text)
        best = texts.found(text)
        assert best == (len(text) // SIZE * SIZE if linear else len(text))
        texts.cache.evict(rng.randrange(4) if texts.cache.held > 30 else 0)
        assert texts.cache.held == texts.pages.count == len(nodes(texts.cache))


def nodes(cache: PrefixCache) -> list[Node]:
    return list(cache._walk())

"""The prefix cache: a tree of held pages, each reached by the tokens that are in it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Tokens = tuple[int, ...]


class Pages(Protocol):
    """What the cache needs of an engine; `Batch` has it."""

    page: int  # positions in one
    linear: bool

    def hold(self, page: int) -> None:
        """Keep a page."""

    def drop(self, page: int) -> None:
        """Let go of it."""


@dataclass(eq=False)
class Node:
    """A page, and the pages that continue its text. Only a leaf can be filled in part."""

    tokens: Tokens
    page: int
    parent: Node | None
    children: dict[Tokens, Node] = field(default_factory=dict)
    pins: int = 0  # running requests whose text goes through it
    value: float = 0.0
    used: int = 0
    alive: bool = True


class PrefixCache:
    """Which pages hold which prefix. Pages of running requests are pinned, the others may leave.

    A page leaves after all that continue it, so conversations shrink from their end. Whose end goes first: every
    use gives all pages of a conversation the value `clock + (its length in pages)²`, the lowest value leaves,
    and the clock is the highest value that ever left (GreedyDual). Among conversations of one length that is the
    least recently used; hundreds of one-page side requests make room for each other before one of 16 pages loses
    its last, which it does in the end if nobody uses it.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._root = Node((), -1, None)
        self._clock = 0.0
        self._time = 0
        self.held = 0  # pages in the tree
        self.pinned = 0  # of them, pinned
        self.evicted = 0  # since the start

    @property
    def evictable(self) -> int:
        """Pages that can leave now."""
        return self.held - self.pinned

    def match(self, ids: Sequence[int]) -> tuple[list[Node], int]:
        """The pages of the longest cached prefix of `ids`, and its length, which may end inside the last one."""
        size = self._pages.page
        node, path, length = self._root, list[Node](), 0
        while child := node.children.get(tuple(ids[length : length + size])):
            if len(child.tokens) < size:
                break
            node = child
            path.append(node)
            length += size
        if self._pages.linear:
            return path, length
        rest = ids[length : length + size]
        common, best = max(
            ((_common(child.tokens, rest), child) for child in node.children.values()),
            key=lambda found: found[0],
            default=(0, node),
        )
        return ([*path, best], length + common) if common else (path, length)

    def pin(self, path: Sequence[Node], length: int) -> list[Node]:
        """A running request goes on from this match: returns the whole pages of it, pinned.

        It has a reference of its own to a page that it takes only a part of, and soon a copy.
        """
        self._touch(path)
        whole = list(path[: length // self._pages.page])
        for node in whole:
            node.pins += 1
            self.pinned += node.alive and node.pins == 1
        return whole

    def unpin(self, path: Sequence[Node]) -> None:
        """It does not any more."""
        for node in path:
            node.pins -= 1
            self.pinned -= node.alive and node.pins == 0
        self._touch([node for node in path if node.alive])

    def insert(self, path: list[Node], ids: Sequence[int], pages: Sequence[int]) -> list[Node]:
        """Hold the pages of a text beyond those of `path`, the whole pages of it that are in the tree.

        Where the tree has a page with the same tokens already, that one stays. Returns the longer path, of whole
        pages; its new nodes are not pinned.
        """
        size = self._pages.page
        path = list(path) if all(node.alive for node in path) else []
        last: list[Node] = []
        for i in range(len(path), len(pages)):
            tokens = tuple(ids[i * size : (i + 1) * size])
            if not tokens or (self._pages.linear and len(tokens) < size):
                break
            node = self._child(path[-1] if path else self._root, tokens, pages[i])
            (path if len(tokens) == size else last).append(node)
        self._touch(path + last)
        return path

    def evict(self, count: int, *, pinned: bool = False) -> int:
        """Let go of up to `count` pages that nobody runs on (or, with `pinned`, of any); how many it were."""
        leaves = [
            (node.value, node.used, id(node), node)
            for node in self._walk()
            if not node.children and (pinned or node.pins == 0)
        ]
        heapq.heapify(leaves)
        done = 0
        while leaves and done < count:
            value, _, _, node = heapq.heappop(leaves)
            parent = node.parent
            assert parent is not None
            self._remove(node)
            self._clock = max(self._clock, value)
            done += 1
            if parent is not self._root and not parent.children and (pinned or parent.pins == 0):
                heapq.heappush(leaves, (parent.value, parent.used, id(parent), parent))
        self.evicted += done
        return done

    def clear(self) -> None:
        """Let go of everything."""
        while self.evict(self.held, pinned=True):
            pass

    def _child(self, node: Node, tokens: Tokens, page: int) -> Node:
        if child := node.children.get(tokens):
            if self._pages.linear and child.page != page:
                self._replace(child, page)  # the copy of the state lies with the newer page
            return child
        for child in node.children.values():
            if len(child.tokens) < len(tokens) and tokens[: len(child.tokens)] == child.tokens:
                del node.children[child.tokens]
                child.tokens = tokens
                node.children[tokens] = child
                self._replace(child, page)
                return child
            if tokens == child.tokens[: len(tokens)]:
                return child  # it holds more already
        self._pages.hold(page)
        self.held += 1
        node.children[tokens] = child = Node(tokens, page, node)
        return child

    def _replace(self, node: Node, page: int) -> None:
        self._pages.hold(page)
        self._pages.drop(node.page)
        node.page = page

    def _remove(self, node: Node) -> None:
        assert node.parent is not None and not node.children
        del node.parent.children[node.tokens]
        node.alive = False
        self.held -= 1
        self.pinned -= node.pins > 0
        self._pages.drop(node.page)

    def _touch(self, path: Sequence[Node]) -> None:
        self._time += 1
        for node in path:
            node.value = max(node.value, self._clock + len(path) ** 2)
            node.used = self._time

    def _walk(self) -> Iterator[Node]:
        stack = list(self._root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count

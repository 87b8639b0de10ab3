"""Likeness of a Python program to its reference, as PPOCoder rewards it.

Sources: CodeBLEU (Ren et al. 2020, arXiv 2009.10297, sections 3.2 and 3.3), and what PPOCoder
(Shojaee et al. 2023, arXiv 2301.13816, Eq. 4 to 6) makes of it in ``CodeBLEU/syntax_match.py`` and
``dataflow_match.py`` of reddy-lab-code-research/PPOCoder. Both matches are of concrete syntax
trees, so that a program that does not compile has them, too. What is odd is the original's:

- what looks like a comment of Java is cut out of a Python program first, ``//`` to the end of its
  line among it;
- a subtree of the reference counts as often as it stands there, however seldom ours has it;
- numbers and strings have a flow, as names do; assignment and use of a name are both an edge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import tree_sitter
import tree_sitter_python

COMPUTED, COMES = "computedFrom", "comesFrom"
_CUT = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^\\'])*'|"(?:\\.|[^\\"])*\"""", re.DOTALL)
Node = Any
Edge = tuple[int, str, str, tuple[str, ...], tuple[int, ...]]
"""Place of a token, its text, how its value is had, and the names and places that it is had from:
one name may stand for several places.
"""
States = dict[str, tuple[int, ...]]
"""Of each name the places where its value was set last."""


def matches(ours: str, gold: str) -> tuple[float, float]:
    """The shares of the reference's subtrees and of its data-flow edges that ours has, 0 to 1; no
    flow of the reference is a share of 0.
    """
    mine, wanted = (_tree(_without_comments(text.strip())) for text in (ours, gold))
    known, asked = set(_subtrees(mine)), list(_subtrees(wanted))
    syntax = sum(one in known for one in asked) / len(asked)
    flows = Counter(_flows(wanted))
    shared = (flows & Counter(_flows(mine))).total()
    return syntax, shared / flows.total() if flows else 0.0


def _without_comments(text: str) -> str:
    kept = _CUT.sub(lambda found: " " if found[0].startswith("/") else found[0], text)
    return "\n".join(line for line in kept.split("\n") if line.strip())


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))


def _tree(text: str) -> Node:
    return _parser().parse(text.encode()).root_node


def _subtrees(root: Node) -> Iterator[str]:
    """Every subtree of more than a leaf, as text of node types."""
    yield str(root)
    for child in root.children:
        if child.children:
            yield from _subtrees(child)


# Data flow ----------------------------------------------------------------------------------------


def _flows(root: Node) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The edges of a program, names numbered by appearance; without those of tokens that neither
    come from any other nor are what others come from.
    """
    tokens = {one.id: place for place, one in enumerate(_tokens(root))}
    edges, _ = _Reading(tokens).read(root, {})
    linked = {at for place, *_, places in edges if places for at in (place, *places)}
    numbers: dict[str, str] = {}
    kept = (edge for edge in edges if edge[0] in linked)
    for _, text, relation, names, _ in _merged(kept, lambda edge: edge[0]):
        for one in (*names, text):
            numbers.setdefault(one, str(len(numbers)))
        yield numbers[text], relation, tuple(numbers[one] for one in names)


def _merged(edges: Iterable[Edge], key: Callable[[Edge], Any]) -> list[Edge]:
    """One edge for all of a key: the last of them, with what any of them is had from, once."""
    found: dict[Any, Edge] = {}
    for edge in edges:
        if before := found.get(key(edge)):
            names, places = (*before[3], *edge[3]), (*before[4], *edge[4])
            edge = (*edge[:3], tuple(dict.fromkeys(names)), tuple(dict.fromkeys(places)))
        found[key(edge)] = edge
    return list(found.values())


def _is_token(node: Node) -> bool:
    return (not node.children or node.type == "string") and node.type != "comment"


def _tokens(node: Node) -> list[Node]:
    if _is_token(node):
        return [node]
    return [one for child in node.children for one in _tokens(child)]


def _text(node: Node) -> str:
    return str(node.text.decode())


def _items(node: Node) -> list[Node]:
    return [one for one in node.children if one.type != ","]


class _Reading:
    """The edges of a tree, read from left to right with the states of its names."""

    def __init__(self, tokens: dict[int, int]) -> None:
        self.tokens = tokens

    def read(self, node: Node, states: States) -> tuple[list[Edge], States]:
        states, kind = dict(states), node.type
        if _is_token(node):
            edge = self._token(node, states)
        elif kind == "default_parameter":
            edge = self._default(node, states)
        elif kind in ("assignment", "augmented_assignment", "for_in_clause"):
            if kind != "for_in_clause" and node.child_by_field_name("right") is None:
                return [], states
            edge = self._assigned(node, states)
        elif kind == "if_statement":
            return self._if(node, states)
        elif kind in ("for_statement", "while_statement"):
            edge = self._loop(node, states)
        else:  # what a comprehension goes over comes before what it makes
            first = [one for one in node.children if one.type == "for_in_clause"]
            rest = [one for one in node.children if one.type != "for_in_clause"]
            edge = self._each([*first, *rest], states)
        return sorted(edge, key=lambda one: one[0]), states

    def _each(self, nodes: Sequence[Node], states: States) -> list[Edge]:
        """Of nodes one after another; ``states`` becomes what it is after them."""
        found: list[Edge] = []
        for node in nodes:
            edges, after = self.read(node, states)
            found += edges
            states.update(after)
        return found

    def _token(self, node: Node, states: States) -> list[Edge]:
        text, place = _text(node), self.tokens[node.id]
        if node.type == text:  # a keyword or a sign
            return []
        if text in states:
            return [(place, text, COMES, (text,), states[text])]
        if node.type == "identifier":
            states[text] = (place,)
        return [(place, text, COMES, (), ())]

    def _values(self, node: Node) -> list[tuple[str, int]]:
        """The names, numbers and strings of a tree with their places."""
        kept = (one for one in _tokens(node) if one.type != _text(one))
        return [(_text(one), self.tokens[one.id]) for one in kept]

    def _default(self, node: Node, states: States) -> list[Edge]:
        name, value = (node.child_by_field_name(field) for field in ("name", "value"))
        found = self._each([value], states)
        for text, place in self._values(name):
            found += [(place, text, COMES, (one,), (at,)) for one, at in self._values(value)]
            states[text] = (place,)
        return found

    def _pairs(self, node: Node) -> tuple[list[Node], list[Node]]:
        """What is assigned to, and what; item by item where both sides have as many."""
        left, right = (node.child_by_field_name(field) for field in ("left", "right"))
        if node.type == "for_in_clause":
            return [left], [node.children[-1]]
        lefts, rights = _items(left), _items(right)
        if len(lefts) != len(rights) or not lefts:
            return [left], [right]
        return lefts, rights

    def _assigned(self, node: Node, states: States) -> list[Edge]:
        lefts, rights = self._pairs(node)
        found = self._each(rights, states)
        for left, right in zip(lefts, rights, strict=True):
            values = self._values(right)
            names, places = tuple(one for one, _ in values), tuple(at for _, at in values)
            for text, place in self._values(left):
                found.append((place, text, COMPUTED, names, places))
                states[text] = (place,)
        return found

    def _if(self, node: Node, states: States) -> tuple[list[Edge], States]:
        """A name may come from any branch; from before, too, where there is no ``else``."""
        found: list[Edge] = []
        own, ends, whole = dict(states), list[States](), False
        for child in node.children:
            whole = whole or "else" in child.type
            if child.type in ("elif_clause", "else_clause"):
                edges, after = self.read(child, states)
                ends.append(after)
            else:
                edges, own = self.read(child, own)
            found += edges
        joined: dict[str, set[int]] = {}
        for end in (*ends, own, *([] if whole else [states])):
            for name, places in end.items():
                joined.setdefault(name, set()).update(places)
        after = {name: tuple(sorted(places)) for name, places in joined.items()}
        return sorted(found, key=lambda one: one[0]), after

    def _loop(self, node: Node, states: States) -> list[Edge]:
        """Read twice, so that what comes round is seen."""
        found: list[Edge] = []
        for _ in range(2):
            if node.type == "while_statement":
                found += self._each(node.children, states)
                continue
            found += self._assigned(node, states)
            if node.children[-1].type == "block":
                found += self._each(node.children[-1:], states)
        return _merged(found, lambda edge: edge[:3])

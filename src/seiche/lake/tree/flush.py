"""Moving messages down the tree, and keeping it in shape while they move.

Rules, in the order in which they matter:

1. Messages enter at the root and move one level at a time, the largest group for one child first, and only when a
   node has become too large. So most commits write the root and nothing else.
2. A leaf applies what it gets. An inner node puts it into its buffer; messages about its own keys are applied there.
3. A node with too many keys, or too large with an empty buffer, is cut in equal pieces; the keys between them go up.
4. A node with too few keys is joined with a neighbour, and cut again if that is too much.
5. The root is cut into children of a new root that keeps all its messages; a root with a single child becomes that
   child.
"""

from collections import Counter
from collections.abc import Set as AbstractSet

from seiche.lake.tree.draft import Draft, Shape
from seiche.lake.tree.node import PER_FILE, PER_ROW, Message, Node, weight
from seiche.lake.tree.nodes import Nodes

__all__ = ["Flush"]


class Flush:
    """One change of a tree in the making. Reads nodes, writes nothing; `counts` says what had to be done."""

    def __init__(self, nodes: Nodes, shape: Shape) -> None:
        self.counts: Counter[str] = Counter()
        self._nodes = nodes
        self._shape = shape

    def excess(self, root: Node | Draft) -> int:
        """By how many bytes a root is too large; most are not, and then nothing has to move."""
        messages = root.buffer_size
        return max(messages - self._shape.root_buffer_bytes, messages + root.table_size - self._shape.node_bytes)

    def root(self, node: Node, own: AbstractSet[bytes]) -> Draft:
        """The root as it is to be written, its changed descendants as drafts below it.

        Messages about keys in `own`, those of the commit itself, stay in the root whatever their size: they are what a
        later writer finds in it.
        """
        draft = Draft.of(node)
        while (excess := self.excess(draft)) > 0:
            if draft.level == 0:
                self._apply_to_root_leaf(draft, own)
                break
            draft.settle(own)
            if not self._flush(draft, min(excess, self.excess(draft)), own):
                break
            draft = self._collapsed(draft)
        return self.grown(draft, self._shape.most_keys)

    def grown(self, draft: Draft, most_keys: int) -> Draft:
        """A root over as many new levels as its keys need; its messages stay in the root."""
        while True:
            buffer, draft.buffer = draft.buffer, {}
            pieces, bounds = draft.cut(most_keys, self._shape.node_bytes)
            draft.buffer = buffer
            if len(pieces) == 1:
                return draft
            self.counts["splits"] += len(bounds)
            keys = [draft.keys[bound] for bound in bounds]
            values = [draft.values[bound] for bound in bounds]
            draft = Draft(draft.level + 1, keys, values, list(pieces), buffer)

    def _apply_to_root_leaf(self, draft: Draft, own: AbstractSet[bytes]) -> None:
        draft.write({key: message for key, message in draft.buffer.items() if key not in own})
        draft.buffer = {key: message for key, message in draft.buffer.items() if key in own}

    def _collapsed(self, draft: Draft) -> Draft:
        while draft.level and not draft.keys:
            child = self._child(draft, 0)
            child.buffer.update(draft.buffer)
            draft = child
            self.counts["collapses"] += 1
        return draft

    def _flush(self, draft: Draft, excess: int, keep: AbstractSet[bytes] = frozenset()) -> bool:
        """Push the largest groups of messages to their children until `excess` bytes are gone; False if none can
        move.
        """
        groups: dict[int, list[bytes]] = {}
        for key in draft.buffer:
            index, here = draft.place(key)
            if here:
                self.counts["sticky"] += key not in keep
            elif key not in keep:
                groups.setdefault(index, []).append(key)
        weights = {index: weight(keys, [draft.buffer[key] for key in keys]) for index, keys in groups.items()}
        chosen: list[int] = []
        for index in sorted(groups, key=lambda index: (-weights[index], index)):
            if excess <= 0:
                break
            chosen.append(index)
            excess -= weights[index]
        self._nodes.load_many([child for index in chosen if isinstance(child := draft.children[index], str)])
        for index in chosen:
            messages = {key: draft.buffer.pop(key) for key in groups[index]}
            self._push(self._child(draft, index), messages)
        if chosen:
            self._mend(draft, keep)
        return bool(chosen)

    def _push(self, child: Draft, messages: dict[bytes, Message]) -> None:
        self.counts["pushes"] += 1
        self.counts["inner_pushes"] += child.level > 0
        if child.level == 0:
            child.write(messages)
            return
        child.buffer.update(messages)
        child.settle()
        self._relieve(child)

    def _relieve(self, draft: Draft) -> None:
        while (excess := draft.size - self._shape.node_bytes) > 0 and self._flush(draft, excess):
            pass

    def _child(self, draft: Draft, index: int) -> Draft:
        child = draft.children[index]
        if not isinstance(child, Draft):
            child = draft.children[index] = Draft.of(self._nodes.load(child))
        return child

    def _mend(self, draft: Draft, keep: AbstractSet[bytes]) -> None:
        """Bring the changed children back within their limits, first by joining small ones, then by cutting large
        ones.
        """
        index = len(draft.children) - 1
        while index >= 0:
            child = draft.children[index]
            few = isinstance(child, Draft) and len(child.keys) < self._shape.least_keys
            if few and len(draft.children) > 1 and self._join(draft, min(index, len(draft.children) - 2), keep):
                index = min(index, len(draft.children) - 1)
            else:
                index -= 1
        for index in range(len(draft.children) - 1, -1, -1):
            child = draft.children[index]
            if isinstance(child, Draft):
                self._cut(draft, index, child)
        draft.settle(keep)

    def _join(self, draft: Draft, index: int, keep: AbstractSet[bytes]) -> bool:
        """Join the children on both sides of key `index`; False, and nothing done, if one file could not hold them."""
        left, right = self._child(draft, index), self._child(draft, index + 1)
        key, value = draft.keys[index], draft.values[index]
        few = len(left.keys) + 1 + len(right.keys) <= self._shape.most_keys
        joined = left.size - PER_FILE + right.size + len(key) + len(value) + PER_ROW
        if left.level == 0 and few and joined > self._shape.node_bytes:
            return False
        message = draft.buffer.get(key)
        tombstone = message if message is not None and message[0] is None and key not in keep else None
        if tombstone is not None:
            del draft.buffer[key]
            self.counts["resolved"] += 1
        left.join(key, value, right, tombstone)
        del draft.keys[index], draft.values[index], draft.children[index + 1]
        self.counts["merges"] += 1
        if left.level:
            self._relieve(left)
        return True

    def _cut(self, draft: Draft, index: int, child: Draft) -> None:
        pieces, bounds = child.cut(self._shape.most_keys, self._shape.node_bytes)
        if not bounds:
            return
        self.counts["splits"] += len(bounds)
        keys = [child.keys[bound] for bound in bounds]
        draft.children[index : index + 1] = pieces
        draft.keys[index:index] = keys
        draft.values[index:index] = [child.values[bound] for bound in bounds]
        for key in keys:
            # A tombstone that lay on the key moves up with it. It is older than anything that the node above says.
            message = child.buffer.get(key)
            if message is not None:
                draft.buffer.setdefault(key, message)

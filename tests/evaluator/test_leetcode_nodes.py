"""Linked lists and trees: lists in a test, nodes in the program."""

import pytest

from mcbench.evaluator import CallTest, Submission

REVERSE = """class Solution:
    def reverse(self, head: Optional[ListNode]) -> Optional[ListNode]:
        last = None
        while head:
            head.next, last, head = last, head, head.next
        return last
"""
OWN = """class ListNode:
    def __init__(self, val=0, next=None):
        self.val, self.next = val, next
"""
MERGE = """class Solution:
    def merge(self, lists: List[Optional[ListNode]]) -> Optional[ListNode]:
        values = []
        for node in lists:
            while node:
                values.append(node.val)
                node = node.next
        head = None
        for value in sorted(values, reverse=True):
            head = ListNode(value, head)
        return head
"""
MIRROR = """class Solution:
    def mirror(self, root: Optional[TreeNode], depth: int = 0) -> Optional[TreeNode]:
        if root:
            root.left, root.right = self.mirror(root.right), self.mirror(root.left)
        return root
"""
PYTHON_2 = """class Solution(object):
    def reverse(self, head):
        \"""
        :type head: Optional[ListNode]
        :rtype: Optional[ListNode]
        \"""
        before = None
        while head:
            head.next, before, head = before, head, head.next
        return before
"""
COUNT = """def count(root: 'TreeNode') -> int:
    return 1 + count(root.left) + count(root.right) if root else 0
"""


@pytest.mark.parametrize(
    ("code", "name", "args", "expected"),
    [
        (REVERSE, "reverse", [[1, 2, 3]], [3, 2, 1]),
        (REVERSE, "reverse", [[]], []),
        (PYTHON_2, "reverse", [[1, 2, 3]], [3, 2, 1]),
        (PYTHON_2, "reverse", [[]], []),
        (OWN + REVERSE, "reverse", [[1, 2]], [2, 1]),
        (MERGE, "merge", [[[1, 4], [], [2]]], [1, 2, 4]),
        (MIRROR, "mirror", [[1, 2, 3, None, 4]], [1, 3, 2, None, None, 4]),
        (COUNT, "count", [[5, None, 6, 7]], 3),
    ],
)
def test_nodes_come_from_and_go_as_lists(evaluator, code, name, args, expected):
    right, wrong = CallTest(name, args, expected), CallTest(name, args, [9, 9])
    (result,) = evaluator.evaluate([Submission(code, [right, wrong])])
    assert result.verdicts == ["AC", "WA"]

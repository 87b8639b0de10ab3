"""What a stand-in's methods ask of the object that is in the other process, and what does it there.

Standard library only: the zygote loads this file. A name is that of the method (`__add__`), of the
question and of the function that answers it.
"""

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

ARITHMETIC = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"),
    *("lshift", "rshift"),
)
SWAPPED = (*ARITHMETIC, "divmod")  # binary, also with the object on the right (`__radd__`)
IN_PLACE = (*ARITHMETIC, "matmul")  # also as `__iadd__`
COMPARING = ("lt", "le", "gt", "ge")
OPERATORS = (*SWAPPED, *COMPARING, "matmul", "neg", "pos", "invert", "abs")
# Other methods, and the type that the answer is made; None for any.
QUESTIONS: dict[str, Callable[[Any], Any] | None] = {
    **dict.fromkeys(("setattr", "delattr", "getitem", "setitem", "delitem", "iter", "next")),
    **dict.fromkeys(("reversed", "aiter", "round", "floor", "ceil", "trunc")),
    **{kind.__name__: kind for kind in (str, float, complex, bytes, int)},
    **dict.fromkeys(("repr", "format"), str),
    **dict.fromkeys(("index", "len", "hash"), int),
}


_FUNCTIONS = vars(math) | vars(builtins)
OPERATIONS: dict[str, Callable[..., Any]] = {
    name: vars(operator).get(f"__{name}__") or _FUNCTIONS[name]
    for name in (*OPERATORS, *QUESTIONS, *(f"i{name}" for name in IN_PLACE), "contains", "eq")
}

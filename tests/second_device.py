"""A second device without one: tensors whose data lies on the CPU, which say that they lie
elsewhere and refuse what those on a GPU refuse, an operation with tensors of two devices.

Torch knows the device as ``meta``, whose tensors have no data; these have some.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import accelerate
import pytest
import torch
import transformers
from torch import Tensor
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    return_and_correct_aliasing,
)
from torch.utils._pytree import tree_leaves, tree_map

THERE = torch.device("meta")
aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
INDEXED = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}


class Distant(Tensor):
    """A tensor on the second device; ``data_here`` has its numbers."""

    @staticmethod
    def __new__(cls, here: Tensor) -> "Distant":
        return Tensor._make_wrapper_subclass(
            cls, here.size(), strides=here.stride(), storage_offset=here.storage_offset(),
            dtype=here.dtype, layout=here.layout, device=THERE, requires_grad=here.requires_grad,
        )  # fmt: skip

    def __init__(self, here: Tensor) -> None:
        self.data_here = here

    def __repr__(self) -> str:
        return f"Distant({self.data_here!r})"

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(torch.tensor(index) if isinstance(index, list) else index)

    def __format__(self, spec: str) -> str:
        return format(self.cpu(), spec)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert a tensor of another device to numpy; copy it with cpu()")

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return execute(func, args, kwargs or {})


class SecondDevice(TorchDispatchMode):
    """What is made on the second device while this is entered is a :class:`Distant`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return execute(func, args, kwargs or {})


def is_distant(value: Any) -> bool:
    return isinstance(value, Distant)


def refuse_two_devices(func: Any, args: Any, tensors: list[Tensor]) -> None:
    """As on a GPU: numbers and indices may lie on the CPU, all other tensors lie together."""
    if any(one.is_meta and not is_distant(one) for one in tensors):
        raise RuntimeError(f"{func}: a tensor without data")
    if func in INDEXED:
        if not is_distant(args[0]) and any(map(is_distant, args[1])):
            raise RuntimeError(f"{func}: indices on a device, what they index on the CPU")
        tensors = [args[0], *args[2:3]] if is_distant(args[0]) else tensors
    lie = {is_distant(one) for one in tensors if one.dim() or is_distant(one)}
    if func not in COPIES and len(lie) > 1:
        places = [(one.device.type, tuple(one.shape)) for one in tensors]
        raise RuntimeError(f"{func}: tensors on two devices: {places}")


def execute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation on the CPU, its results where they would be."""
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    refuse_two_devices(func, args, tensors)
    asked, distant = kwargs.get("device"), any(map(is_distant, tensors))
    if asked is None and not distant:
        return func(*args, **kwargs)

    def here(value: Any) -> Any:
        return value.data_here if is_distant(value) else value

    placed = kwargs if asked is None else {**kwargs, "device": torch.device("cpu")}
    result = func(*tree_map(here, args), **tree_map(here, placed))
    if func is aten.copy_.default:
        return args[0]
    if asked is not None and torch.device(asked).type != THERE.type:
        return result
    moved = tree_map(lambda one: Distant(one) if isinstance(one, Tensor) else one, result)
    if not distant or func is aten._to_copy.default:
        return moved
    return return_and_correct_aliasing(func, args, kwargs, moved)


Patch = tuple[Any, str, Any]  # of what, its attribute, what is there instead


def of_tensors() -> list[Patch]:
    """Those that torch would make without data, and what it knows of its own devices alone."""
    make, autocast = torch.tensor, torch.is_autocast_enabled

    def made(data: Any, *, device: Any = None, **kwargs: Any) -> Tensor:
        found = make(data, **kwargs)
        return found if device is None else found.to(device)

    def made_like(like: Tensor, data: Any, dtype: Any = None, device: Any = None) -> Tensor:
        return made(data, dtype=dtype or like.dtype, device=device or like.device)

    return [
        (torch, "tensor", made),
        (Tensor, "new_tensor", made_like),
        (torch, "is_autocast_enabled", lambda of="cuda": of != THERE.type and autocast(of)),
    ]


def of_trainers() -> list[Patch]:
    """Where a trainer puts its model and batches, and an optimizer that runs there."""
    load = transformers.PreTrainedModel.from_pretrained.__func__
    trainer, arguments = transformers.Trainer, transformers.TrainingArguments
    start, device = accelerate.PartialState.__init__, arguments.device.fget
    optimizer = trainer.get_optimizer_cls_and_kwargs

    def loaded(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():  # transformers fills a model that it made as ``meta``
            return load(*args, **kwargs)

    def started(self: accelerate.PartialState, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        self.device = THERE

    def unfused(*args: Any, **kwargs: Any) -> Any:
        kind, options = optimizer(*args, **kwargs)
        return kind, {**options, "fused": False}

    return [
        (transformers.PreTrainedModel, "from_pretrained", classmethod(loaded)),
        (accelerate.PartialState, "__init__", started),
        (arguments, "device", property(lambda self: (device(self), THERE)[1])),
        (trainer, "get_optimizer_cls_and_kwargs", staticmethod(unfused)),
    ]


@contextmanager
def on_second_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trainers that are made and run in here are on the second device, model and batches."""
    for patch in (*of_tensors(), *of_trainers()):
        monkeypatch.setattr(*patch)
    try:
        with SecondDevice():
            yield
    finally:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)

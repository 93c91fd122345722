"""What a layer remembers about its weight between calls."""

from __future__ import annotations

import itertools
import weakref

import torch

from octile import _native

_numbers = itertools.count(1)
# An operator takes tensors and numbers, so a layer names its state by a number.
_by_number: weakref.WeakValueDictionary[int, LayerState] = weakref.WeakValueDictionary()


def layer_state(number: int) -> LayerState | None:
    """The state with this number, if its layer still exists."""
    return _by_number.get(number)


class LayerState:
    """Which weight the last call used, and on a CPU the copy of it that the kernels read."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        # Replaced as a whole, so that threads see the copy of their own weight or none.
        self._last: tuple[torch.Tensor, torch.Tensor, object, torch.Tensor | None] | None = None
        _by_number[self.number] = self

    def is_unchanged(self, weight: torch.Tensor, scales: torch.Tensor) -> bool:
        """Whether the last call had these tensors, and nobody has written to them since."""
        version = _version(weight, scales)
        last = self._last
        if last is not None and last[0] is weight and last[1] is scales and last[2] == version:
            return True
        # The tensors are kept, so that none that is created later can be mistaken for them.
        self._last = weight, scales, version, None
        return False

    def packed(self, weight: torch.Tensor, scales: torch.Tensor, block: int) -> torch.Tensor:
        """The weight in the layout of the CPU kernels, packed if it changed."""
        version = _version(weight, scales)
        last = self._last
        is_same = last is not None and last[0] is weight and last[1] is scales and last[2] == version
        if is_same and last[3] is not None:
            return last[3]
        rows, columns = weight.shape
        packed = torch.empty(_native.packed_shape(rows, columns, block), dtype=torch.uint8)
        _native.pack_into(weight.data_ptr(), scales.data_ptr(), rows, columns, block, packed.data_ptr())
        self._last = weight, scales, version, packed
        return packed

    def clear(self) -> None:
        """Forgets everything."""
        self._last = None

    # A copied or unpickled layer has a state of its own.
    def __deepcopy__(self, memo: object) -> LayerState:
        return LayerState()

    def __reduce__(self) -> tuple[type[LayerState], tuple[()]]:
        return LayerState, ()


def _version(weight: torch.Tensor, scales: torch.Tensor) -> object:
    """Counts in-place writes; tensors made in inference mode have no such count."""
    if weight.is_inference() or scales.is_inference():
        return None
    return weight._version, scales._version

"""Safetensors files of numpy arrays, with the element types of ml_dtypes."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._command import Error

_NUMPY = {
    "BOOL": "bool", "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16", "I32": "int32",
    "U32": "uint32", "I64": "int64", "U64": "uint64", "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip
_ML_DTYPES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def _name_of(dtype: np.dtype[Any]) -> str | None:
    """Name of an element type in safetensors files."""
    names = {numpy: name for name, numpy in (_NUMPY | _ML_DTYPES).items()}
    return names.get(dtype.name)


def _dtype_of(name: str) -> np.dtype[Any]:
    """Element type of a name in safetensors files."""
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    if name not in _ML_DTYPES:
        raise Error(f"tensors of type {name} are not supported")
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))


def write(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Writes a safetensors file, in the given order."""
    header, end = {}, 0
    for name, array in tensors.items():
        dtype = _name_of(array.dtype)
        if dtype is None:
            known = ", ".join([*_NUMPY.values(), *_ML_DTYPES.values()])
            raise Error(f"{name} has elements of type {array.dtype}: use one of {known}")
        start, end = end, end + array.nbytes
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Reads a safetensors file that the command wrote."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[start:end], _dtype_of(entry["dtype"]))
        tensors[name] = array.reshape(entry["shape"]).copy()
    return tensors

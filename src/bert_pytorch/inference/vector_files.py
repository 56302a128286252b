"""Vectors to a file as they come, however many there will be: `.npy`, `.safetensors`, or JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

from ..dataset.encoded_file import write_tensor
from ..errors import UsageError
from ..files import atomic_write

KINDS = (".npy", ".safetensors", ".jsonl")
_HEADER_BYTES = 128
"""Kept at the start of the file, for numbers that are known at its end alone."""


class VectorFile:
    """Takes vectors of one size, 32 bits a number."""

    def __init__(self, file: BinaryIO, kind: str, n_features: int) -> None:
        """Begin the file; `open_vectors` does."""
        self.file, self.kind, self.n_features, self.n_vectors = file, kind, n_features, 0
        if kind != ".jsonl":
            file.write(self._header())

    def write(self, vectors: Tensor, texts: Sequence[str]) -> None:
        """Append vectors `[n, D]` and, in JSON lines, their texts."""
        if self.kind == ".jsonl":
            numbered = enumerate(zip(texts, vectors.tolist(), strict=True), start=self.n_vectors + 1)
            lines = [json.dumps({"line": i, "text": text, "vector": vector}) for i, (text, vector) in numbered]
            self.file.write("".join(f"{line}\n" for line in lines).encode("ascii"))
        else:
            write_tensor(self.file, vectors)
        self.n_vectors += len(vectors)

    def finish(self) -> None:
        """Put the number of vectors where it belongs."""
        if self.kind != ".jsonl":
            self.file.seek(0)
            self.file.write(self._header())

    def _header(self) -> bytes:
        """As the two formats have it, always of one length.

        Source: numpy.lib.format, version 1.0; the safetensors format, whose header may end with spaces.
        """
        shape = self.n_vectors, self.n_features
        if self.kind == ".npy":
            text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
            length = _HEADER_BYTES - 10
            return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + f"{text:<{length - 1}}\n".encode("ascii")
        entry = {"dtype": "F32", "shape": list(shape), "data_offsets": [0, 4 * shape[0] * shape[1]]}
        text = json.dumps({"vectors": entry})
        return (_HEADER_BYTES - 8).to_bytes(8, "little") + f"{text:<{_HEADER_BYTES - 8}}".encode("ascii")


@contextmanager
def open_vectors(path: str | os.PathLike[str], n_features: int) -> Iterator[VectorFile]:
    """Begin a file, which has its name only when it is whole.

    Args:
        path: Its ending decides its format.
        n_features: Numbers a vector, D.

    Raises:
        UsageError: There is no such format.
        SaveError: The file cannot be written.
    """
    kind = kind_of(path)
    with atomic_write(path) as file:
        vectors = VectorFile(file, kind, n_features)
        yield vectors
        vectors.finish()


def kind_of(path: str | os.PathLike[str]) -> str:
    """The format of a file by its ending.

    Raises:
        UsageError: There is no such format.
    """
    kind = Path(path).suffix
    if kind not in KINDS:
        raise UsageError(f"{path}: ends with {kind!r}, expected one of: {', '.join(KINDS)} [E-USAGE]")
    return kind

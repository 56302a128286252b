"""`python -m bert_pytorch` is the command `bert`; `train` is the name it always had."""

from __future__ import annotations

import sys

from .cli import train

__all__ = ["train"]

if __name__ == "__main__":
    sys.exit(train())

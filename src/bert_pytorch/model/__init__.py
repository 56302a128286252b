"""The encoder and its pretraining heads."""

from .bert import BERT
from .language_model import BERTLM

__all__ = ["BERT", "BERTLM"]

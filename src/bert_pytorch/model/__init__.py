"""The encoder and its pretraining heads."""

from .bert import BERT
from .heads import BERTForQuestionAnswering, BERTForSequenceClassification, BERTForTokenClassification
from .language_model import BERTLM

__all__ = [
    "BERT",
    "BERTLM",
    "BERTForQuestionAnswering",
    "BERTForSequenceClassification",
    "BERTForTokenClassification",
]

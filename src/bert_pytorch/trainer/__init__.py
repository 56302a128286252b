"""The pretraining loop, its schedule and its checkpoints."""

from .checkpoint import load_checkpoint, load_model
from .pretrain import BERTTrainer

__all__ = ["BERTTrainer", "load_checkpoint", "load_model"]

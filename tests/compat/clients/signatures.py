"""What can be imported, which parameters it takes and which public names its objects have."""

import inspect
import pkgutil
from collections import Counter
from importlib import import_module

import torch
from corpus import write_pairs
from observe import attempt
from torch import nn
from torch.utils.data import Dataset

import bert_pytorch
from bert_pytorch import BERT
from bert_pytorch.__main__ import train
from bert_pytorch.dataset import BERTDataset, WordVocab
from bert_pytorch.dataset.vocab import TorchVocab, Vocab, build
from bert_pytorch.model import BERTLM
from bert_pytorch.trainer import BERTTrainer
from bert_pytorch.trainer.optim_schedule import ScheduledOptim

CLASSES = [BERT, BERTLM, BERTTrainer, ScheduledOptim, TorchVocab, Vocab, WordVocab, BERTDataset]
PATHS = """
bert_pytorch: BERT
bert_pytorch.__main__: BERT BERTDataset BERTTrainer WordVocab train
bert_pytorch.dataset: BERTDataset WordVocab
bert_pytorch.dataset.dataset: BERTDataset
bert_pytorch.dataset.vocab: TorchVocab Vocab WordVocab build
bert_pytorch.model: BERT BERTLM
bert_pytorch.model.attention: Attention MultiHeadedAttention
bert_pytorch.model.attention.multi_head: Attention MultiHeadedAttention
bert_pytorch.model.attention.single: Attention
bert_pytorch.model.bert: BERT BERTEmbedding TransformerBlock
bert_pytorch.model.embedding: BERTEmbedding
bert_pytorch.model.embedding.bert: BERTEmbedding PositionalEmbedding SegmentEmbedding TokenEmbedding
bert_pytorch.model.embedding.position: PositionalEmbedding
bert_pytorch.model.embedding.segment: SegmentEmbedding
bert_pytorch.model.embedding.token: TokenEmbedding
bert_pytorch.model.language_model: BERT BERTLM MaskedLanguageModel NextSentencePrediction
bert_pytorch.model.transformer: MultiHeadedAttention PositionwiseFeedForward SublayerConnection TransformerBlock
bert_pytorch.model.utils: GELU LayerNorm PositionwiseFeedForward SublayerConnection
bert_pytorch.model.utils.feed_forward: GELU PositionwiseFeedForward
bert_pytorch.model.utils.gelu: GELU
bert_pytorch.model.utils.layer_norm: LayerNorm
bert_pytorch.model.utils.sublayer: LayerNorm SublayerConnection
bert_pytorch.trainer: BERTTrainer
bert_pytorch.trainer.optim_schedule: ScheduledOptim
bert_pytorch.trainer.pretrain: BERT BERTLM BERTTrainer ScheduledOptim
"""


def names_of_0_0_1a4():
    return [(path, name) for line in PATHS.split("\n") if line for path, names in [line.split(": ")] for name in names.split()]


def walked():
    """Every class and function of the package, under each module that has it."""
    paths = ["bert_pytorch", *(found.name for found in pkgutil.walk_packages(bert_pytorch.__path__, "bert_pytorch."))]
    modules = {path: import_module(path) for path in paths}
    return sorted(
        [path, name]
        for path, module in modules.items()
        for name, value in vars(module).items()
        if getattr(value, "__module__", "").startswith("bert_pytorch") and callable(value) and not name.startswith("_")
    )


def missing():
    return [[path, name] for path, name in names_of_0_0_1a4() if not has(path, name)]


def has(path, name):
    try:
        return hasattr(import_module(path), name)
    except ModuleNotFoundError:
        return False


def parameters(function):
    return [
        [parameter.name, parameter.kind.name, None if parameter.default is parameter.empty else {"default": parameter.default}]
        for parameter in inspect.signature(function).parameters.values()
    ]


def signatures():
    """The parameters of each constructor and public method."""
    seen = {"train": parameters(train), "build": parameters(build)}
    for kind in CLASSES:
        inherited = dir(nn.Module) if issubclass(kind, nn.Module) else dir(Dataset)
        names = [name for name in dir(kind) if not name.startswith("_") and name not in inherited]
        functions = {name: getattr(kind, name) for name in ["__init__", *names] if callable(getattr(kind, name))}
        if issubclass(kind, nn.Module):
            functions["forward"] = kind.forward
        seen |= {f"{kind.__name__}.{name}": parameters(function) for name, function in functions.items()}
    return seen


def public_names():
    """The public attributes, methods and submodules of one object of each kind."""
    vocab = WordVocab(["the fox sees a dog"])
    bert = BERT(23, hidden=6, n_layers=1, attn_heads=3)
    optimizer = torch.optim.Adam(bert.parameters())
    objects = {
        "BERT": bert,
        "BERTLM": BERTLM(bert, 23),
        "BERTEmbedding": bert.embedding,
        "BERTTrainer": BERTTrainer(bert, 23, [], with_cuda=False),
        "ScheduledOptim": ScheduledOptim(optimizer, 6, 11),
        "TorchVocab": TorchVocab(Counter()),
        "WordVocab": vocab,
        "BERTDataset": BERTDataset(write_pairs("corpus.txt"), WordVocab(["the fox"]), 17),
    }
    return {kind: sorted(name for name in dir(value) if not name.startswith("_")) for kind, value in objects.items()}


def see():
    return {
        "listed": sorted(map(list, names_of_0_0_1a4())),
        "walked": attempt(walked),
        "missing": missing(),
        "signatures": signatures(),
        "public names": public_names(),
    }

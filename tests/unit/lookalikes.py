"""Files as bert-pytorch 0.0.1a4 writes them, made in a process of its own by a package of its names; and hostile ones."""

import io
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = {
    "__init__.py": "",
    "model/__init__.py": "",
    "model/embedding/__init__.py": "",
    "model/attention/__init__.py": "",
    "model/utils/__init__.py": "",
    "dataset/__init__.py": "",
    "dataset/vocab.py": """
class TorchVocab: pass
class Vocab(TorchVocab): pass
class WordVocab(Vocab): pass
""",
    "model/embedding/token.py": "from torch import nn\nclass TokenEmbedding(nn.Embedding): pass\n",
    "model/embedding/segment.py": "from torch import nn\nclass SegmentEmbedding(nn.Embedding): pass\n",
    "model/embedding/position.py": "from torch import nn\nclass PositionalEmbedding(nn.Module): pass\n",
    "model/embedding/bert.py": "from torch import nn\nclass BERTEmbedding(nn.Module): pass\n",
    "model/attention/single.py": "from torch import nn\nclass Attention(nn.Module): pass\n",
    "model/attention/multi_head.py": "from torch import nn\nclass MultiHeadedAttention(nn.Module): pass\n",
    "model/utils/feed_forward.py": "from torch import nn\nclass PositionwiseFeedForward(nn.Module): pass\n",
    "model/utils/layer_norm.py": "from torch import nn\nclass LayerNorm(nn.Module): pass\n",
    "model/utils/sublayer.py": "from torch import nn\nclass SublayerConnection(nn.Module): pass\n",
    "model/utils/gelu.py": "from torch import nn\nclass GELU(nn.Module): pass\n",
    "model/transformer.py": "from torch import nn\nclass TransformerBlock(nn.Module): pass\n",
    "model/bert.py": "from torch import nn\nclass BERT(nn.Module): pass\n",
    "model/language_model.py": """
from torch import nn
class BERTLM(nn.Module): pass
class NextSentencePrediction(nn.Module): pass
class MaskedLanguageModel(nn.Module): pass
""",
}
PROGRAM = """
import sys, warnings, pickle, math
from collections import Counter
warnings.simplefilter("ignore")
import torch
from torch import nn
from bert_pytorch.dataset.vocab import WordVocab
from bert_pytorch.model.bert import BERT
from bert_pytorch.model.transformer import TransformerBlock
from bert_pytorch.model.language_model import BERTLM, MaskedLanguageModel, NextSentencePrediction
from bert_pytorch.model.attention.multi_head import MultiHeadedAttention
from bert_pytorch.model.attention.single import Attention
from bert_pytorch.model.embedding.bert import BERTEmbedding
from bert_pytorch.model.embedding.position import PositionalEmbedding
from bert_pytorch.model.embedding.segment import SegmentEmbedding
from bert_pytorch.model.embedding.token import TokenEmbedding
from bert_pytorch.model.utils.feed_forward import PositionwiseFeedForward
from bert_pytorch.model.utils.gelu import GELU
from bert_pytorch.model.utils.layer_norm import LayerNorm
from bert_pytorch.model.utils.sublayer import SublayerConnection

V, D, N, L = 23, 15, 3, 2
torch.manual_seed(5)

def norm():
    made = LayerNorm()
    made.a_2, made.b_2, made.eps = nn.Parameter(torch.randn(D)), nn.Parameter(torch.randn(D)), 1e-6
    return made

def sublayer():
    made = SublayerConnection()
    made.norm, made.dropout = norm(), nn.Dropout(0.2)
    return made

def block():
    made = TransformerBlock()
    made.attention = MultiHeadedAttention()
    made.attention.d_k, made.attention.h = D // N, N
    made.attention.linear_layers = nn.ModuleList([nn.Linear(D, D) for _ in range(3)])
    made.attention.output_linear, made.attention.attention = nn.Linear(D, D), Attention()
    made.attention.dropout = nn.Dropout(0.2)
    made.feed_forward = PositionwiseFeedForward()
    made.feed_forward.w_1, made.feed_forward.w_2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    made.feed_forward.dropout, made.feed_forward.activation = nn.Dropout(0.2), GELU()
    made.input_sublayer, made.output_sublayer, made.dropout = sublayer(), sublayer(), nn.Dropout(0.2)
    return made

bert = BERT()
bert.hidden, bert.n_layers, bert.attn_heads, bert.feed_forward_hidden = D, L, N, 4 * D
bert.embedding = BERTEmbedding()
bert.embedding.token, bert.embedding.segment = TokenEmbedding(V, D, padding_idx=0), SegmentEmbedding(3, D, padding_idx=0)
bert.embedding.position = PositionalEmbedding()
angle = torch.arange(31).float()[:, None] * (torch.arange(0, D, 2).float() * -(math.log(10000.0) / D)).exp()
pe = torch.zeros(31, D)
pe[:, 0::2], pe[:, 1::2] = angle.sin(), angle.cos()[:, : D // 2]
bert.embedding.position.register_buffer("pe", pe[None])
bert.embedding.dropout, bert.embedding.embed_size = nn.Dropout(0.2), D
bert.transformer_blocks = nn.ModuleList([block() for _ in range(L)])
lm = BERTLM()
lm.bert, lm.next_sentence, lm.mask_lm = bert, NextSentencePrediction(), MaskedLanguageModel()
lm.next_sentence.linear, lm.next_sentence.softmax = nn.Linear(D, 2), nn.LogSoftmax(dim=-1)
lm.mask_lm.linear, lm.mask_lm.softmax = nn.Linear(D, V), nn.LogSoftmax(dim=-1)
torch.save(bert, "bert.model.ep0")
torch.save(bert, "early.ep0", _use_new_zipfile_serialization=False)
torch.save(lm, "lm.ep0")
torch.save(nn.DataParallel(bert), "parallel.ep0")
torch.save(dict(lm.state_dict()), "weights.pt")
vocab = WordVocab()
vocab.itos = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"] + [f"w{i}" for i in range(V - 5)]
vocab.stoi, vocab.freqs = {word: i for i, word in enumerate(vocab.itos)}, Counter({f"w{i}": 50 - i for i in range(V - 5)})
for name in ("pad", "unk", "eos", "sos", "mask"):
    setattr(vocab, name + "_index", vocab.stoi[f"<{name}>"])
with open("vocab.pkl", "wb") as file:
    pickle.dump(vocab, file)
"""


def write_files(folder):
    """`bert.model.ep0`, `early.ep0`, `lm.ep0`, `parallel.ep0`, `weights.pt` and `vocab.pkl`, in a folder."""
    for name, text in PACKAGE.items():
        path = folder / "bert_pytorch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr


class Runs:
    """A pickle of this runs a command where it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        import os

        return os.system, (self.command,)


def doubled(n=60):
    """A dict whose key holds itself 2 to the n times."""
    content = b"\x80\x02}(K\x01q\x000K\x01\x85q\x01"
    for i in range(1, n):
        content += b"0" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1])
    return content + b"K\x02u."


def archive_of(entries, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


def tensor_pickle(key, numel=4, size=(2, 2), offset=0):
    """The pickle of a state dict with one tensor whose storage has this key and says to have so many numbers."""
    content = b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(("
    content += b"X\x07\x00\x00\x00storagectorch\nFloatStorage\nX" + struct.pack("<I", len(key)) + key.encode()
    content += b"X\x03\x00\x00\x00cpuJ" + struct.pack("<i", numel) + b"tQJ" + struct.pack("<i", offset)
    sizes = b"(" + b"".join(b"J" + struct.pack("<i", n) for n in size) + b"t"
    return content + sizes + b"(K\x02K\x01t\x89ccollections\nOrderedDict\n)RtRs."


def hostile(folder):
    """Files that harm who trusts them: by name, what is in them."""
    inner = archive_of({"archive/data.pkl": pickle.dumps(1)})
    return {
        "command.bin": pickle.dumps({"w": Runs(f"touch {folder}/ran")}, 2),
        "command.zip.bin": archive_of(
            {"archive/data.pkl": pickle.dumps(Runs(f"touch {folder}/ran"), 2), "archive/version": b"3"}
        ),
        "doubled.bin": doubled(),
        "doubled.zip.bin": archive_of({"archive/data.pkl": doubled(), "archive/version": b"3"}),
        "long.bin": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.",
        "memo.bin": b"\x80\x02]r\xff\xff\xff\x7f.",
        "deep.bin": b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
        "packed.bin": archive_of({"archive/data.pkl": b"\x80\x02X" + bytes(50_000_000)}, zipfile.ZIP_DEFLATED),
        "zips.bin": archive_of({"archive/data.pkl": pickle.dumps({}, 2), "archive/inner.zip": inner}),
        "path.bin": archive_of({"archive/data.pkl": tensor_pickle("0"), "../../outside": b"x", "archive/data/0": bytes(16)}),
        "key.bin": archive_of({"archive/data.pkl": tensor_pickle("../../../etc/passwd"), "archive/version": b"3"}),
        "sizes.bin": archive_of({"archive/data.pkl": tensor_pickle("0", size=(1 << 30, 1 << 30)), "archive/data/0": bytes(16)}),
        "empty.bin": b"",
        "noise.bin": bytes(range(256)) * 9,
    }


def write_hostile(folder):
    """Write them, and return their paths."""
    paths = []
    for name, content in hostile(folder).items():
        path = Path(folder) / name
        path.write_bytes(content)
        paths.append(path)
    return paths

"""Made with 0.0.1a4 alone: a vocabulary and models as its users save them, and what the models give for a padded batch."""

import contextlib
import io
import pickle
import warnings

import torch
from observe import finish

from bert_pytorch.dataset import WordVocab
from bert_pytorch.model import BERT, BERTLM
from bert_pytorch.trainer import BERTTrainer

warnings.simplefilter("ignore")


def main():
    texts = ["the fox runs now\tthe dog barks", "a dog sleeps\tit barks there now", "birds sing\tno river"]
    vocab = WordVocab(texts)
    with open("vocab.pkl", "wb") as file:
        pickle.dump(vocab, file)
    torch.manual_seed(3)
    bert = BERT(len(vocab), hidden=12, n_layers=2, attn_heads=3, dropout=0.2)
    with torch.no_grad():
        for parameter in bert.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        bert.embedding.token.weight[0] = bert.embedding.segment.weight[0] = 0
    lm = BERTLM(bert, len(vocab)).eval()
    torch.save(lm, "lm.model")
    torch.save(bert, "early.model", _use_new_zipfile_serialization=False)
    x, segments = torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.int64)
    for row, text in enumerate(["the fox barks", "no dog"]):
        ids = vocab.to_seq(text, with_sos=True, with_eos=True)
        x[row, : len(ids)] = torch.tensor(ids)
        segments[row, : len(ids)] = 1
    segments[0, 3:5] = 2
    with torch.no_grad():
        hidden = bert.eval()(x, segments)
        next_sentence, words = lm(x, segments)
    values = {"x": x, "segments": segments, "hidden": hidden, "next_sentence": next_sentence, "words": words}
    torch.save(values, "outputs.pt")
    with contextlib.redirect_stdout(io.StringIO()):
        BERTTrainer(bert, len(vocab), [], with_cuda=False).save(0, "bert.model")
    finish({"itos": list(vocab.itos), "freqs": dict(vocab.freqs)})


main()

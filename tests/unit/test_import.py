"""Models from elsewhere, trained on here: new words, weights to begin with, and what is refused."""

import json
from collections import Counter

import pytest
import torch

from bert_pytorch import BERT, BERTLM, WordVocab
from bert_pytorch.cli import train
from bert_pytorch.dataset.tokenizer import train_subwords
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.errors import InputError
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.extending import extend, missing_words
from bert_pytorch.interop.huggingface import export_model, load_pretrained
from bert_pytorch.trainer import load_checkpoint, load_model

from .examples import load_script, make_vocab, story_pairs, write_pairs
from .hub_folders import HUB_WORDS, make_lm, stirred, write_hub_folder

VOCAB = make_vocab(story_pairs())
FLAGS = "-c corpus.txt -v vocab.json -o model -s 13 -b 4 -e 1 --device cpu --dropout 0".split()
ROWS = ("bert.embedding.token.weight", "mask_lm.decoder.bias")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs("corpus.txt", story_pairs())
    VOCAB.save_vocab("vocab.json")
    return tmp_path


@pytest.fixture
def hub(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=len(HUB_WORDS), hidden_size=20, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=31
    )
    return write_hub_folder(tmp_path / "hub", stirred(transformers.BertForMaskedLM(config)))


def closing(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def rows_of(model, name):
    return model.state_dict()[name]


def test_new_words_get_rows_of_the_pieces_that_spelled_them(hub):
    found = load_pretrained(hub)
    vocab = found.vocab
    extended = extend(found.model, vocab, ["dogs", "ab", "Dogs", "fox", "zoo", "a-b", "two words"])
    assert extended.added == ["dogs", "ab", "zoo"]
    assert len(extended.vocab) == len(vocab) + 3
    assert extended.vocab.to_seq("the dogs zoo") == [vocab.stoi["the"], len(vocab), len(vocab) + 2]
    assert extended.vocab.to_seq("dog s") == vocab.to_seq("dog s")
    spelled = {"dogs": ["dog", "##s"], "ab": ["a", "##b"]}
    for name in ROWS:
        old, new = rows_of(found.model, name), rows_of(extended.model, name)
        assert torch.equal(new[: len(vocab)], old)
        for word, pieces in spelled.items():
            expected = torch.stack([old[vocab.stoi[piece]] for piece in pieces]).mean(0)
            torch.testing.assert_close(new[extended.vocab.stoi[word]], expected)
        torch.testing.assert_close(new[-1], old[5:].mean(0))
    assert extended.model.mask_lm.decoder.weight is extended.model.bert.embedding.token.weight
    assert found.model.bert.vocab_size == len(vocab)


def test_a_longer_vocabulary_changes_nothing_for_texts_without_new_words(hub):
    found = load_pretrained(hub)
    extended = extend(found.model, found.vocab, ["dogs"])
    ids = torch.tensor([[3, *found.vocab.to_seq("the fox . a"), 2]])
    with torch.no_grad():
        before, after = (model.bert(ids, torch.ones_like(ids)) for model in (found.model, extended.model))
        words = extended.model(ids, torch.ones_like(ids))[1][0, 1].exp()
    assert torch.equal(before, after)
    # The new word does not take all: it is as likely as the words around it.
    assert float(words[-1]) < 5 / len(words)


@pytest.mark.parametrize("lowercase", [False, True])
def test_vocabularies_of_words_grow_too(lowercase):
    vocab = WordVocab(["a1 b1 c\n"], lowercase=lowercase)
    model = make_lm(len(vocab))
    extended = extend(model, vocab, ["New", "a1", "new"])
    assert extended.added == (["new"] if lowercase else ["New", "new"])
    assert extended.vocab.to_seq("New") == [len(vocab)]
    torch.testing.assert_close(rows_of(extended.model, ROWS[0])[-1], rows_of(model, ROWS[0])[5:].mean(0))
    state = torch.get_rng_state()
    extend(model, vocab, ["x"])
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("architecture", ["modernbert", "bert-pytorch"])
def test_every_architecture_takes_new_words(architecture):
    model = make_lm(len(VOCAB), "modernbert")
    if architecture == "bert-pytorch":
        model = BERTLM(BERT(len(VOCAB), 20, 1, 4, architecture=architecture), len(VOCAB)).eval()
    extended = extend(model, VOCAB, ["new"])
    ids = torch.tensor([[3, len(VOCAB), 2]])
    with torch.no_grad():
        assert extended.model(ids, torch.ones_like(ids))[1].shape == (1, 3, len(VOCAB) + 1)
        assert extended.model.bert(ids[:, :1], torch.ones_like(ids[:, :1])).shape == (1, 1, model.bert.hidden)


def test_byte_level_vocabularies_are_refused():
    vocab = train_subwords(Counter({"abc": 5}), "BPE", 300)
    with pytest.raises(InputError, match="BPE spells words by its merges"):
        extend(make_lm(len(vocab)), vocab, ["new"])


def test_missing_words_are_the_commonest_as_the_vocabulary_forms_them(hub):
    vocab = load_pretrained(hub).vocab
    counts = Counter({"Dogs": 2, "dogs.": 1, "fox": 9, "cat": 4, "bat": 4, "rare": 1})
    assert missing_words(vocab, counts, 9, min_freq=2) == ["bat", "cat", "dogs"]
    assert missing_words(vocab, counts, 1) == ["bat"]
    assert missing_words(WordVocab(["fox"]), counts, 3, min_freq=2) == ["bat", "cat", "Dogs"]


def test_a_hub_folder_is_imported_extended_and_trained_on(here, hub, capsys):
    write_pairs("corpus.txt", [("the dogs", f"a fox {'ab' * (i % 2)}") for i in range(11)])
    main = load_script("inference-and-export", "import_model").main
    flags = ["--model", str(hub), "--output", "start.ckpt", "--output_vocab", "vocab.json", "--corpus", "corpus.txt"]
    assert main([*flags, "--min_freq", "3", "--n_words", "5"]) == 0
    report = closing(capsys)
    assert (report["first_added"], report["begins_anew"]) == (["dogs", "ab"], ["next_sentence"])
    vocab = Vocab.load_vocab("vocab.json")
    assert len(vocab) == report["vocab_size"] == len(load_pretrained(hub).vocab) + 2
    assert load_checkpoint("start.ckpt")["settings"]["vocab_sha256"] == vocab.fingerprint
    assert train([*FLAGS, "--objective", "mlm", "--model_name_or_path", "start.ckpt", "--lr", "1e-9"]) == 0
    begun, trained = load_model("start.ckpt").state_dict(), load_model("model.ep0").state_dict()
    assert begun.keys() == trained.keys()
    assert all((trained[name] - begun[name]).abs().max() < 1e-6 for name in begun)
    assert closing(capsys)["vocab_size"] == len(vocab)


def test_words_may_come_from_a_list(here, hub, capsys):
    (here / "words.txt").write_text("zoo\nthe\n")
    main = load_script("inference-and-export", "import_model").main
    assert main(["--model", str(hub), "--output", "s", "--output_vocab", "v.json", "--words", "words.txt", "--json"]) == 0
    assert closing(capsys)["first_added"] == ["zoo"]


@pytest.mark.parametrize("form", ["file", "folder"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_bert_begins_with_the_weights_of_a_model(form, architecture, here, capsys):
    model = make_lm(len(VOCAB), architecture)
    if form == "file":
        write_as_checkpoint("start", model, VOCAB)
    else:
        export_model(model, VOCAB, "start")
    assert train([*FLAGS, "--model_name_or_path", "start", "--lr", "1e-9"]) == 0
    capsys.readouterr()
    trained = load_model("model.ep0")
    assert trained.bert.config == {**model.bert.config, "dropout": 0.0}
    assert all((trained.state_dict()[name] - value).abs().max() < 1e-6 for name, value in model.state_dict().items())
    assert train([*FLAGS, "--model_name_or_path", "start", "--lr", "0.01", "-o", "further"]) == 0
    assert closing(capsys)["steps"] == 3
    assert not torch.equal(load_model("further.ep0").state_dict()[ROWS[0]], model.state_dict()[ROWS[0]])


def test_a_run_that_began_so_is_resumed_to_the_bit(here, capsys):
    write_as_checkpoint("start", make_lm(len(VOCAB)), VOCAB)
    words = [*FLAGS, "--model_name_or_path", "start", "-e", "3"]
    assert train([*words, "-o", "whole"]) == 0
    assert train([*words, "--stop_after_epochs", "1"]) == 0
    assert train([*words, "--resume", "last"]) == 0
    one, other = load_model("whole.ep2").state_dict(), load_model("model.ep2").state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--model_name_or_path", "missing"], "E-CHECKPOINT-READ"),
        (["--model_name_or_path", "start", "-hs", "64"], "E-SETTING-CONFLICT"),
        (["--model_name_or_path", "start", "--architecture", "modernbert"], "E-SETTING-CONFLICT"),
        (["--model_name_or_path", "start", "-s", "48"], "E-MODEL-LENGTH"),
        (["--model_name_or_path", "start", "-v", "other.json"], "E-EXPORT-VOCAB"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_before_training(words, code, here, capsys):
    write_as_checkpoint("start", make_lm(len(VOCAB)), VOCAB)
    WordVocab(["of others e f1"]).save_vocab("other.json")
    capsys.readouterr()
    assert train([*FLAGS, *words]) in (1, 2)
    assert closing(capsys)["code"] == code
    assert not (here / "model.ep0").exists()


def test_sizes_that_are_the_models_may_be_repeated(here, capsys):
    write_as_checkpoint("start", make_lm(len(VOCAB)), VOCAB)
    assert train([*FLAGS, "--model_name_or_path", "start", "-hs", "20", "-l", "2", "-a", "4", "--max_steps", "1"]) == 0

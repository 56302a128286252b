"""Models to Transformers and back: the same weights to the bit, the same ids, the same outputs."""

import json
import warnings

import pytest
import torch

from bert_pytorch import BERT, BERTLM, WordVocab
from bert_pytorch.dataset.tokenizer import train_subwords
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.errors import InputError
from bert_pytorch.interop.huggingface import export_checkpoint, export_model, load_pretrained
from bert_pytorch.interop.weights import read_tensors
from bert_pytorch.trainer import load_model

from .examples import assert_one_line, make_vocab, story_pairs
from .hub_folders import HUB_WORDS, make_lm, stirred, write_hub_folder
from .runs import start

transformers = pytest.importorskip("transformers")

TEXTS = ["a1 b1 c d", "e f1 G1 h zzz", "  a2\tb2 \n c\u3000d ", "x", "A1 \ufb01 \u00c5ngstr\u00f6m \u03a3\u03a3 h\x1cc"]
KINDS = ["word", "lowercase", "normalized", "wordpiece", "bpe"]


def vocabulary(kind):
    lines = [f"{first}\t{second}\n" for first, second in story_pairs()] + ["x a1 the fi \u00e5ngstr\u00f6m \u03c3\u03c2\n"]
    if kind == "word":
        return WordVocab(lines)
    if kind in ("lowercase", "normalized"):
        return WordVocab(lines, lowercase=True, normalize=kind == "normalized")
    counts = WordVocab(lines).freqs
    return train_subwords(counts, {"wordpiece": "WordPiece", "bpe": "BPE"}[kind], 300 if kind == "bpe" else 60, lowercase=True)


def ids_of(vocab, text, other=None):
    first = [vocab.sos_index, *vocab.to_seq(text), vocab.eos_index]
    second = [] if other is None else [*vocab.to_seq(other), vocab.eos_index]
    return first + second, [1] * len(first) + [2] * len(second)


def padded(rows):
    length = max(map(len, rows))
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


def small_config(**changed):
    sizes = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 31}
    return transformers.BertConfig(vocab_size=len(HUB_WORDS), **sizes, **changed)


def transformers_class(architecture):
    return transformers.BertForPreTraining if architecture == "bert" else transformers.ModernBertForMaskedLM


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_gives_our_ids_and_segments(kind, tmp_path):
    vocab = vocabulary(kind)
    export_model(make_lm(len(vocab)), vocab, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        ids, segments = ids_of(vocab, text, TEXTS[0])
        encoded = tokenizer(text, TEXTS[0])
        assert encoded["input_ids"] == ids
        assert [i + 1 for i in encoded["token_type_ids"]] == segments
        assert tokenizer(text)["input_ids"] == ids_of(vocab, text)[0]
    specials = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.sep_token_id, tokenizer.cls_token_id]
    assert [*specials, tokenizer.mask_token_id] == [0, 1, 2, 3, 4]
    assert len(tokenizer) == len(vocab)
    assert tokenizer.model_max_length == 47


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_comes_back(kind, tmp_path):
    vocab = vocabulary(kind)
    export_model(make_lm(len(vocab)), vocab, tmp_path)
    back = load_pretrained(tmp_path).vocab
    assert back.itos == vocab.itos
    assert back.fingerprint == vocab.fingerprint
    assert back.to_seqs(TEXTS) == vocab.to_seqs(TEXTS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_outputs_equal_those_of_transformers_on_padded_batches(architecture, kind, dtype, tmp_path):
    vocab = vocabulary(kind)
    model = make_lm(len(vocab), architecture).to(dtype)
    export_model(model, vocab, tmp_path)
    theirs = transformers_class(architecture).from_pretrained(tmp_path, attn_implementation="sdpa").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    batch = tokenizer(TEXTS, list(reversed(TEXTS)), padding=True, return_tensors="pt")
    rows = [ids_of(vocab, *pair) for pair in zip(TEXTS, reversed(TEXTS), strict=True)]
    ids, segments = padded([row[0] for row in rows]), padded([row[1] for row in rows])
    assert torch.equal(batch["input_ids"], ids)
    assert theirs.dtype == dtype
    with torch.no_grad():
        next_sentence, words = model(ids, segments)
        outputs = theirs(**batch, output_hidden_states=True)
        hidden = model.bert(ids, segments)
    real = ids != 0
    logits = outputs.prediction_logits if architecture == "bert" else outputs.logits
    pairs = [(words[real], logits.log_softmax(-1)[real]), (hidden[real], outputs.hidden_states[-1][real])]
    if architecture == "bert":
        pairs.append((next_sentence, outputs.seq_relationship_logits.log_softmax(-1).flip(-1)))
    if dtype == torch.float32:
        assert max(float((ours - other).abs().max()) for ours, other in pairs) < 1e-5
        return
    # Rounding to 8 bits happens in another order on the two sides: ours is as near to the exact result as theirs.
    exact = load_pretrained(tmp_path).model.double()
    with torch.no_grad():
        next_sentence, words = exact(ids, segments)
        expected = (words[real], exact.bert(ids, segments)[real], next_sentence)
    for (ours, other), each in zip(pairs, expected, strict=False):
        errors = [float((value - each).abs().mean()) for value in (ours, other)]
        assert errors[0] < 1.25 * errors[1] + 5e-4
        assert errors[0] < 2**-8 * float(each.abs().max())


@pytest.mark.parametrize(("architecture", "tolerance"), [("bert", 1e-13), ("modernbert", 1e-6)])
def test_outputs_in_64_bits_show_the_same_graph(architecture, tolerance, tmp_path):
    # Rotary angles have 32 bits on both sides, rounded in another order; nothing else but the graph is left here.
    export_model(make_lm(31, architecture, max_len=150), None, tmp_path)
    kind = transformers_class(architecture)
    theirs = kind.from_pretrained(tmp_path, attn_implementation="sdpa", dtype=torch.float64).eval()
    model = load_pretrained(tmp_path).model.double()
    ids = torch.randint(5, 31, (3, 143), generator=torch.Generator().manual_seed(1))
    ids[1, 71:] = 0
    real = ids != 0
    with torch.no_grad():
        outputs = theirs(ids, attention_mask=real.long(), output_hidden_states=True)
        hidden, (_, words) = model.bert(ids, real.long()), model(ids, real.long())
    logits = outputs.prediction_logits if architecture == "bert" else outputs.logits
    assert (hidden - outputs.hidden_states[-1])[real].abs().max() < tolerance
    assert (words - logits.log_softmax(-1))[real].abs().max() < tolerance


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
@pytest.mark.parametrize("through_transformers", [False, True])
def test_weights_come_back_to_the_bit(architecture, kind, through_transformers, tmp_path):
    vocab = vocabulary(kind)
    model = make_lm(len(vocab), architecture)
    export_model(model, vocab, tmp_path / "out")
    folder = tmp_path / "out"
    if through_transformers:
        folder = tmp_path / "again"
        transformers_class(architecture).from_pretrained(tmp_path / "out").save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(tmp_path / "out").save_pretrained(folder)
        if architecture == "modernbert":
            (tmp_path / "out" / "next_sentence.safetensors").rename(folder / "next_sentence.safetensors")
    back = load_pretrained(folder)
    assert (back.new, back.left_out) == ([], [])
    state = model.state_dict()
    assert back.model.state_dict().keys() == state.keys()
    assert [name for name, value in back.model.state_dict().items() if not torch.equal(value, state[name])] == []
    assert back.model.bert.config == model.bert.config
    assert back.vocab.fingerprint == vocab.fingerprint
    assert back.model.mask_lm.decoder.weight is back.model.bert.embedding.token.weight
    assert not back.model.training


@pytest.mark.parametrize("form", ["file", "folder"])
def test_a_checkpoint_of_either_form_is_exported_with_a_card(form, tmp_path):
    trainer = start(tmp_path, max_steps=4, save_strategy="steps", save_steps=4)
    trainer.settings = {"vocab_sha256": make_vocab(story_pairs()).fingerprint, "objective": "mlm+nsp"}
    trainer.fit()
    path = trainer.save(0, tmp_path / "model") if form == "file" else str(tmp_path / "run" / "checkpoint-4")
    make_vocab(story_pairs()).save_vocab(tmp_path / "vocab.json")
    files = export_checkpoint(path, tmp_path / "vocab.json", tmp_path / "hub")
    assert files[-1] == "config.json"
    assert sorted(files) == sorted(
        p.relative_to(tmp_path / "hub").as_posix() for p in (tmp_path / "hub").rglob("*") if p.is_file()
    )
    card = (tmp_path / "hub" / "README.md").read_text()
    assert "| training steps | 4 |" in card
    assert "| objective | mlm+nsp |" in card
    state = load_model(path).state_dict()
    back = BERTLM.from_pretrained(tmp_path / "hub").state_dict()
    assert [name for name in state if not torch.equal(state[name], back[name])] == []
    assert torch.equal(BERT.from_pretrained(path).embedding.token.weight, state["bert.embedding.token.weight"])


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_pipelines_fill_masks_as_we_do(architecture, tmp_path):
    vocab = vocabulary("word")
    model = make_lm(len(vocab), architecture)
    export_model(model, vocab, tmp_path)
    fill = transformers.pipeline("fill-mask", model=str(tmp_path), top_k=7)
    found = fill("a1 <mask> c d")
    ids = torch.tensor([[3, vocab.stoi["a1"], 4, vocab.stoi["c"], vocab.stoi["d"], 2]])
    with torch.no_grad():
        words = model(ids, torch.ones_like(ids))[1][0, 2].exp()
    top = words.topk(7)
    assert [each["token"] for each in found] == top.indices.tolist()
    torch.testing.assert_close(torch.tensor([each["score"] for each in found]), top.values, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_sentence_transformers_average_real_tokens(architecture, kind, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    vocab = vocabulary(kind)
    model = make_lm(len(vocab), architecture)
    export_model(model, vocab, tmp_path)
    vectors = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS, convert_to_tensor=True)
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids, segments = (torch.tensor([row]) for row in ids_of(vocab, text))
        with torch.no_grad():
            ours = model.bert(ids, segments)[0].mean(0)
        assert (ours - vector).abs().max() < 1e-5


@pytest.mark.parametrize("safe", [True, False], ids=["safetensors", "bin"])
@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_a_hub_model_is_renumbered_and_gives_its_outputs(name, safe, tmp_path):
    config = small_config(intermediate_size=53)
    theirs = stirred(getattr(transformers, name)(config))
    folder = write_hub_folder(tmp_path / "hub", theirs, safe=safe)
    found = load_pretrained(folder)
    assert found.vocab.itos[:5] == ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]
    assert found.their_ids[:6] == [0, 2, 4, 3, 5, 1]
    assert found.vocab.to_seq("dogs fox zzz") == [found.vocab.stoi[word] for word in ("dog", "##s", "fox", "<unk>")]
    rows = [ids_of(found.vocab, "the dogs .", "a fox"), ids_of(found.vocab, "fox")]
    ids, segments = padded([row[0] for row in rows]), padded([row[1] for row in rows])
    their_ids = torch.tensor(found.their_ids)[ids]
    types = (segments - 1).clamp(min=0)
    with torch.no_grad():
        outputs = theirs(their_ids, attention_mask=(ids != 0).long(), token_type_ids=types, output_hidden_states=True)
        hidden, (next_sentence, words) = found.model.bert(ids, segments), found.model(ids, segments)
    assert (hidden - outputs.hidden_states[-1])[ids != 0].abs().max() < 1e-5
    heads = {each.partition(".")[0] for each in found.new}
    if name == "BertModel":
        assert heads == {"mask_lm", "next_sentence"}
        return
    logits = outputs.logits if name == "BertForMaskedLM" else outputs.prediction_logits
    expected = logits.log_softmax(-1)[..., found.their_ids]
    assert (words - expected)[ids != 0].abs().max() < 1e-5
    assert heads == ({"next_sentence"} if name == "BertForMaskedLM" else set())
    if name == "BertForPreTraining":
        assert (next_sentence - outputs.seq_relationship_logits.log_softmax(-1).flip(-1)).abs().max() < 1e-5


def test_a_modernbert_of_transformers_is_imported(tmp_path):
    config = transformers.ModernBertConfig(
        vocab_size=29,
        hidden_size=24,
        intermediate_size=31,
        num_hidden_layers=4,
        num_attention_heads=2,
        pad_token_id=0,
        max_position_embeddings=150,
    )
    theirs = stirred(transformers.ModernBertForMaskedLM._from_config(config, attn_implementation="sdpa"))
    theirs.save_pretrained(tmp_path)
    found = load_pretrained(tmp_path)
    assert found.vocab is None
    assert {name.partition(".")[0] for name in found.new} == {"next_sentence"}
    ids = torch.randint(5, 29, (2, 143), generator=torch.Generator().manual_seed(1))
    ids[1, 90:] = 0
    with torch.no_grad():
        logits = theirs(ids, attention_mask=(ids != 0).long()).logits.log_softmax(-1)
        words = found.model(ids, (ids != 0).long())[1]
    assert (words - logits)[ids != 0].abs().max() < 1e-5


def test_old_names_of_norms_and_shards_are_read(tmp_path):
    config = small_config(intermediate_size=80)
    theirs = stirred(transformers.BertForPreTraining(config))
    folder = write_hub_folder(tmp_path / "new", theirs, safe=False)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in theirs.state_dict().items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(31)[None]
    names = sorted(old)
    (tmp_path / "old").mkdir()
    for name in ("config.json", "vocab.txt"):
        (tmp_path / "old" / name).write_bytes((folder / name).read_bytes())
    places = {name: f"pytorch_model-0000{1 + i % 2}-of-00002.bin" for i, name in enumerate(names)}
    for file in set(places.values()):
        torch.save({name: old[name] for name in names if places[name] == file}, tmp_path / "old" / file)
    (tmp_path / "old" / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    one, other = load_pretrained(folder), load_pretrained(tmp_path / "old")
    assert other.left_out == []
    state = one.model.state_dict()
    assert [name for name, value in other.model.state_dict().items() if not torch.equal(value, state[name])] == []


def test_what_is_new_is_said_and_rates_can_be_chosen(tmp_path):
    config = small_config(intermediate_size=80, hidden_dropout_prob=0.2)
    folder = write_hub_folder(tmp_path, stirred(transformers.BertModel(config)))
    with pytest.warns(UserWarning, match="mask_lm and next_sentence, which begin anew"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*one rate here")
            BERTLM.from_pretrained(folder)
    with pytest.warns(
        UserWarning, match=r"hidden_dropout_prob 0\.2, attention_probs_dropout_prob 0\.1: there is one rate here"
    ):
        assert load_pretrained(folder).model.bert.dropout == 0.2
    assert load_pretrained(folder, dropout=0.0).model.bert.dropout == 0.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new', expected 'gelu'"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps is 1e-05"),
        ({"model_type": "roberta"}, "model_type 'roberta', expected one of: bert, modernbert"),
        ({"hidden_size": "20"}, "hidden_size is '20'"),
        ({"hidden_size": 24}, "are \\[\\d+, 20\\], expected \\[\\d+, 24\\] by config.json"),
        ({"num_hidden_layers": 1_000_000_000}, "num_hidden_layers is 1000000000"),
        ({"num_hidden_layers": 3}, "config.json has 3 layers, the weights have 2"),
        ({"vocab_size": 3, "intermediate_size": 81}, "expected \\[81, 20\\]"),
    ],
)
def test_another_graph_or_other_sizes_are_refused(change, says, tmp_path):
    vocab = vocabulary("word")
    export_model(make_lm(len(vocab)), vocab, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(InputError, match=says) as caught:
        load_pretrained(tmp_path)
    assert_one_line(caught.value, tmp_path, caught.value.code)


def test_wrong_companions_are_refused(tmp_path):
    vocab = vocabulary("word")
    model = make_lm(len(vocab))
    with pytest.raises(InputError, match=rf"the vocabulary has 5 entries, the model {len(vocab)}"):
        export_model(model, Vocab({}), tmp_path / "hub")
    assert not (tmp_path / "hub").exists()
    trainer = start(tmp_path, max_steps=2, save_strategy="steps", save_steps=2)
    trainer.settings = {"vocab_sha256": "of another"}
    trainer.fit()
    checkpoint = tmp_path / "run" / "checkpoint-2"
    with pytest.raises(InputError, match="was trained with another vocabulary"):
        export_checkpoint(checkpoint, vocab, tmp_path / "hub")
    with pytest.raises(InputError, match="is a checkpoint, whose files would be overwritten"):
        export_model(model, vocab, checkpoint)


def test_a_model_saves_itself_with_or_without_a_vocabulary(tmp_path):
    vocab = vocabulary("word")
    model = make_lm(len(vocab))
    vocab.save_vocab(tmp_path / "vocab.json")
    model.save_pretrained(tmp_path / "with", tmp_path / "vocab.json")
    model.save_pretrained(tmp_path / "without")
    assert not (tmp_path / "without" / "tokenizer.json").exists()
    for name in ("with", "without"):
        assert torch.equal(BERTLM.from_pretrained(tmp_path / name).mask_lm.decoder.bias, model.mask_lm.decoder.bias)


def test_the_files_are_plain_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    export_model(make_lm(23, "modernbert"), None, tmp_path)
    for name in ("model.safetensors", "next_sentence.safetensors"):
        ours, theirs = read_tensors(tmp_path / name), safetensors.load_file(tmp_path / name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)

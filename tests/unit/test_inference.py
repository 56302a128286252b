"""A trained model at work: vectors, words for masks, scores, neighbours; each against a slow and plain way."""

import io
import json
import math

import pytest
import torch

from bert_pytorch import BERT, WordVocab
from bert_pytorch.errors import InputError, UsageError
from bert_pytorch.inference.batches import by_length, pad, run_over
from bert_pytorch.inference.embedding import POOLINGS, Embedder, up_to_layer
from bert_pytorch.inference.filling import fill_mask
from bert_pytorch.inference.loading import Recipe, open_model, read_texts, recipe_of
from bert_pytorch.inference.nearest import nearest
from bert_pytorch.inference.scoring import score_lines
from bert_pytorch.inference.vector_files import open_vectors
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.huggingface import export_model

from .examples import make_vocab, story_pairs
from .hub_folders import make_lm

VOCAB = make_vocab(story_pairs())
TEXTS = ["a1 b1 c d", "e", "f1 g1 h zzz a2 b2 c", "", "a3 b0 c d e f3", "g2 h"]
ARCHITECTURES = ["bert", "modernbert"]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def hidden_of(bert, ids, layer=None):
    """One line alone, layer by layer: no batch, no padding, no shortcut."""
    x = torch.tensor([ids])
    segments = torch.ones_like(x)
    states = []
    hooks = [block.register_forward_hook(lambda _, __, out: states.append(out)) for block in bert.transformer_blocks]
    with torch.no_grad():
        final = bert(x, segments)
        first = bert.embedding(x) if bert.architecture == "modernbert" else bert.embedding(x, segments)
    for hook in hooks:
        hook.remove()
    return ([first, *states[:-1], final] if layer is not None else [final])[-1 if layer is None else layer][0]


def ids_of(text, max_tokens=47):
    return [VOCAB.sos_index, *VOCAB.to_seq(text)[: max_tokens - 2], VOCAB.eos_index]


@pytest.mark.parametrize("layer", [-1, 1, 0])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_those_of_each_line_alone(architecture, pooling, layer):
    bert = make_lm(len(VOCAB), architecture).bert
    found = Embedder(bert, VOCAB, pooling, layer, tokens_per_batch=20)(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        hidden = hidden_of(bert, ids_of(text), layer)
        expected = {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.amax(0)}[pooling]
        torch.testing.assert_close(vector, expected, atol=1e-5, rtol=1e-5)


def test_vectors_do_not_depend_on_batches_threads_or_order(two_threads):
    bert = make_lm(len(VOCAB)).bert
    one = Embedder(bert, VOCAB, tokens_per_batch=7)(TEXTS * 5)
    torch.set_num_threads(1)
    other = Embedder(bert, VOCAB, tokens_per_batch=4096)((TEXTS * 5)[::-1])
    torch.testing.assert_close(one, other.flip(0), atol=1e-6, rtol=1e-5)
    assert torch.get_num_threads() == 1


def test_vectors_can_be_normalised_and_long_lines_are_cut_and_counted():
    bert = make_lm(len(VOCAB)).bert
    embed = Embedder(bert, VOCAB, normalize=True, max_tokens=5)
    found = embed(TEXTS)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(len(TEXTS)))
    assert (embed.n_cut, embed.n_tokens) == (3, sum(min(len(VOCAB.to_seq(text)), 3) + 2 for text in TEXTS))
    mean = hidden_of(bert, ids_of(TEXTS[2], 5)).mean(0)
    torch.testing.assert_close(found[2], mean / mean.norm(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"pooling": "sum"}, "pooling 'sum', expected one of: mean, cls, max"),
        ({"layer": 3}, "layer is 3, expected -3 to 2"),
        ({"layer": -4}, "layer is -4"),
        ({"max_tokens": 48}, "max_tokens is 48, expected 3 to 47"),
        ({"max_tokens": 2}, "max_tokens is 2"),
    ],
)
def test_vectors_that_there_are_not(settings, says):
    with pytest.raises(InputError, match=says):
        Embedder(make_lm(len(VOCAB)).bert, VOCAB, **settings)


def test_a_part_of_an_encoder_shares_its_weights_and_leaves_it_whole():
    bert = make_lm(len(VOCAB), "modernbert").bert
    part = up_to_layer(bert, 2)
    assert (part.n_layers, bert.n_layers, len(bert.transformer_blocks)) == (2, 4, 4)
    assert part.transformer_blocks[1] is bert.transformer_blocks[1]
    assert up_to_layer(bert, -1) is up_to_layer(bert, 4) is bert


def test_batches_hold_like_lengths_and_every_sequence_once():
    lengths = [3, 50, 4, 9, 3, 8, 200]
    batches = by_length(lengths, 24)
    assert sorted(i for batch in batches for i in batch) == list(range(7))
    assert all(len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= 24 for batch in batches)
    flat = [lengths[i] for batch in batches for i in batch]
    assert flat == sorted(flat, reverse=True)
    assert pad([[3, 5], [3]], torch.device("cpu")).tolist() == [[3, 5], [3, 0]]


def test_a_fault_in_one_batch_ends_the_work(two_threads):
    def work(batch):
        assert torch.is_inference_mode_enabled()
        if batch == [2]:
            raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        run_over([[1], [2], [3]], work, torch.device("cpu"))
    assert torch.get_num_threads() == 2


def test_masks_are_filled_with_the_models_own_probabilities():
    model = make_lm(len(VOCAB))
    found = fill_mask(model, VOCAB, "a1 <mask> c [MASK]\te f1", top_k=4)
    ids = [3, VOCAB.stoi["a1"], 4, VOCAB.stoi["c"], 4, 2, *VOCAB.to_seq("e f1"), 2]
    segments = [1] * 6 + [2] * 3
    with torch.no_grad():
        words = model(torch.tensor([ids]), torch.tensor([segments]))[1][0].exp()
    for choices, place in zip(found, (2, 4), strict=True):
        top = words[place].topk(4)
        assert [choice.id for choice in choices] == top.indices.tolist()
        assert [choice.token for choice in choices] == [VOCAB.itos[i] for i in top.indices]
        assert [choice.probability for choice in choices] == pytest.approx(top.values.tolist(), abs=1e-6)
    assert len(fill_mask(model, VOCAB, "<mask>", top_k=10_000)[0]) == len(VOCAB)


def test_a_text_without_a_mask_or_too_long_is_refused():
    model = make_lm(len(VOCAB))
    with pytest.raises(InputError, match="no <mask> in the text 'a1 b1'"):
        fill_mask(model, VOCAB, "a1 b1")
    with pytest.raises(InputError, match="62 tokens, expected at most 47"):
        fill_mask(model, VOCAB, "<mask> " + "a1 " * 59)


def surprise_of(model, text):
    """A line's words hidden one by one: the mean surprise, and the share outside the likeliest 5."""
    parts = [VOCAB.to_seq(part) for part in text.split("\t")]
    ids = [3, *parts[0], 2, *([*parts[1], 2] if len(parts) > 1 else [])]
    segments = torch.tensor([[1] * (len(parts[0]) + 2) + [2] * (len(ids) - len(parts[0]) - 2)])
    surprises, outside = [], 0
    with torch.no_grad():
        for place, true in enumerate(ids):
            if true in (2, 3):
                continue
            hidden = torch.tensor([ids])
            hidden[0, place] = 4
            words = model(hidden, segments)[1][0, place]
            surprises.append(-float(words[true]))
            outside += true not in words.topk(5).indices.tolist()
        follows = float(model(torch.tensor([ids]), segments)[0][0, 1].exp())
    return math.exp(sum(surprises) / len(surprises)), outside / len(surprises), follows


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scores_are_those_of_each_word_hidden_alone(architecture):
    model = make_lm(len(VOCAB), architecture)
    lines = ["a1 b1 c d", "e f1 zzz", "a1 b1 c\te f1 g1 h", "e"]
    for line, score in zip(lines, score_lines(model, VOCAB, lines), strict=True):
        perplexity, outside, follows = surprise_of(model, line)
        assert score.perplexity == pytest.approx(perplexity, rel=1e-4)
        assert score.outside_share == pytest.approx(outside)
        assert score.n_words == len(VOCAB.to_seq(line.replace("\t", " ")))
        if "\t" in line:
            assert score.next_sentence == pytest.approx(follows, abs=1e-5)
        else:
            assert math.isnan(score.next_sentence)


def test_scores_repeat_with_threads_and_say_where_there_is_nothing_to_score(two_threads):
    model = make_lm(len(VOCAB))
    lines = [f"a{i % 11} b{i % 3} c d" for i in range(300)] + [""]
    one, other = score_lines(model, VOCAB, lines), score_lines(model, VOCAB, lines)
    assert [score.perplexity for score in one[:-1]] == [score.perplexity for score in other[:-1]]
    assert math.isnan(one[-1].perplexity)
    assert math.isnan(one[-1].outside_share)
    assert one[-1].n_words == 0


def test_fewer_passes_hide_words_together():
    model = make_lm(len(VOCAB))
    line = "a1 b1 c d e f1"
    exact, rough = (score_lines(model, VOCAB, [line], passes=passes)[0].perplexity for passes in (None, 2))
    assert score_lines(model, VOCAB, [line], passes=6)[0].perplexity == pytest.approx(exact, rel=1e-5)
    ids = ids_of(line)
    surprise = 0.0
    for first in (1, 2):
        hidden = torch.tensor([ids])
        places = list(range(first, 7, 2))
        hidden[0, places] = 4
        with torch.no_grad():
            words = model(hidden, torch.ones_like(hidden))[1][0]
        surprise -= sum(float(words[place, ids[place]]) for place in places)
    assert rough == pytest.approx(math.exp(surprise / 6), rel=1e-4)


def test_nearest_lines_are_those_of_all_cosines(monkeypatch):
    monkeypatch.setattr("bert_pytorch.inference.nearest._AT_ONCE", 3)
    lines = torch.randn(13, 5, generator=torch.Generator().manual_seed(1))
    cosines = torch.nn.functional.cosine_similarity(lines[:, None], lines[None], dim=-1)
    for i, near in enumerate(nearest(lines, lines, 4, is_same=True)):
        others = sorted((j for j in range(13) if j != i), key=lambda j: -float(cosines[i, j]))
        assert [each.number for each in near] == others[:4]
    lines[7] = 2 * lines[2]
    found = nearest(lines[2:3], lines, 99)[0]
    assert {each.number for each in found[:2]} == {2, 7}
    assert found[0].similarity == pytest.approx(1.0, abs=1e-6)
    assert len(found) == 13


@pytest.mark.parametrize("kind", [".npy", ".safetensors", ".jsonl"])
def test_vector_files_hold_what_came_in_parts(kind, tmp_path):
    vectors = torch.randn(11, 3, generator=torch.Generator().manual_seed(2))
    texts = [f"text {i} \u00e9" for i in range(11)]
    with open_vectors(tmp_path / f"v{kind}", 3) as file:
        for start in range(0, 11, 4):
            file.write(vectors[start : start + 4], texts[start : start + 4])
    if kind == ".npy":
        numpy = pytest.importorskip("numpy")
        found = torch.from_numpy(numpy.load(tmp_path / "v.npy", mmap_mode="r", allow_pickle=False).copy())
    elif kind == ".safetensors":
        found = pytest.importorskip("safetensors.torch").load_file(tmp_path / "v.safetensors")["vectors"]
    else:
        rows = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
        assert [(row["line"], row["text"]) for row in rows] == list(enumerate(texts, start=1))
        found = torch.tensor([row["vector"] for row in rows])
    assert torch.equal(found, vectors)


def test_a_vector_file_is_whole_or_not_there(tmp_path):
    with pytest.raises(RuntimeError, match="stopped"), open_vectors(tmp_path / "v.npy", 3) as file:
        file.write(torch.zeros(2, 3), ["a", "b"])
        raise RuntimeError("stopped")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match=r"ends with '\.txt', expected one of"), open_vectors(tmp_path / "v.txt", 3):
        pass


@pytest.mark.parametrize("form", ["file", "folder"])
def test_a_model_and_its_vocabulary_are_opened_together(form, tmp_path):
    model = make_lm(len(VOCAB))
    VOCAB.save_vocab(tmp_path / "vocab.json")
    if form == "file":
        write_as_checkpoint(tmp_path / "m", model, VOCAB)
    else:
        export_model(model, VOCAB, tmp_path / "m")
    loaded = open_model(tmp_path / "m", tmp_path / "vocab.json")
    assert loaded.vocab.fingerprint == VOCAB.fingerprint
    assert not loaded.model.training
    assert torch.equal(loaded.model.bert.embedding.token.weight, model.bert.embedding.token.weight)
    if form == "folder":
        assert open_model(tmp_path / "m").vocab.itos == VOCAB.itos
    else:
        with pytest.raises(UsageError, match="is a checkpoint; give its vocabulary with --vocab_path"):
            open_model(tmp_path / "m")
    WordVocab(["of others"]).save_vocab(tmp_path / "other.json")
    with pytest.raises(InputError, match="another vocabulary than"):
        open_model(tmp_path / "m", tmp_path / "other.json")


def test_a_folder_without_a_tokenizer_needs_a_vocabulary(tmp_path):
    export_model(make_lm(len(VOCAB)), None, tmp_path / "m")
    with pytest.raises(UsageError, match="has no tokenizer files; give its vocabulary"):
        open_model(tmp_path / "m")
    VOCAB.save_vocab(tmp_path / "vocab.json")
    assert open_model(tmp_path / "m", tmp_path / "vocab.json").vocab == VOCAB
    WordVocab(["of others"]).save_vocab(tmp_path / "other.json")
    with pytest.raises(InputError, match=r"the vocabulary has 7 entries, the model \d+; give the one"):
        open_model(tmp_path / "m", tmp_path / "other.json")


def test_a_folder_says_how_its_vectors_are_made(tmp_path):
    assert recipe_of(tmp_path) == Recipe("mean", False, None)
    (tmp_path / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    types = ["Transformer", "Pooling", "Normalize"]
    (tmp_path / "modules.json").write_text(json.dumps([{"type": f"sentence_transformers.models.{kind}"} for kind in types]))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    assert recipe_of(tmp_path) == Recipe("cls", True, 128)
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({**pooling, "pooling_mode_mean_tokens": True}))
    with pytest.warns(UserWarning, match="joins cls and mean vectors; cls alone is taken"):
        assert recipe_of(tmp_path).pooling == "cls"


def test_lines_are_read_as_they_are(tmp_path, monkeypatch):
    content = "\ufeffone \u00e9\r\n\ntwo\tthree".encode()
    (tmp_path / "lines.txt").write_bytes(content)
    expected = ["one \u00e9", "", "two\tthree"]
    assert list(read_texts(str(tmp_path / "lines.txt"))) == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert list(read_texts("-")) == expected
    (tmp_path / "lines.txt").write_bytes(b"a\nb \xff\n")
    with pytest.raises(InputError, match=r"lines\.txt:2: byte 2 is not utf-8"):
        list(read_texts(str(tmp_path / "lines.txt")))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_texts(str(tmp_path / "missing.txt")))


def test_the_old_architecture_embeds_too():
    torch.manual_seed(0)
    bert = BERT(len(VOCAB), 20, 2, 4, max_len=47, architecture="bert-pytorch").eval()
    found = Embedder(bert, VOCAB)(TEXTS)
    torch.testing.assert_close(found[0], hidden_of(bert, ids_of(TEXTS[0])).mean(0), atol=1e-5, rtol=1e-5)

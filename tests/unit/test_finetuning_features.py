"""Word alignment, windows with stride, places of answers, hidden tokens: what a model is given is what the text says."""

import random
from itertools import pairwise

import pytest
import torch

from bert_pytorch import WordVocab
from bert_pytorch.errors import InputError
from bert_pytorch.finetuning.collating import MaskingCollator, PaddingCollator
from bert_pytorch.finetuning.encoders import Cut, FastEncoder, WordEncoder, encoder_of
from bert_pytorch.finetuning.examples import Example
from bert_pytorch.finetuning.features import IGNORED, align, make_features
from bert_pytorch.finetuning.native_batches import NativeBatches
from bert_pytorch.finetuning.scoring import predict_answers
from bert_pytorch.finetuning.settings import settings_of

from .finetuning_runs import write_bert

WORDS = "a b c d e f g h i j k l m n o p q r s t u v w x y z".split()


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    from bert_pytorch.finetuning.encoders import load_encoder

    words = WordEncoder(WordVocab([" ".join(WORDS)]))
    pytest.importorskip("tokenizers")
    return {"words": words, "fast": load_encoder(write_bert(tmp_path_factory.mktemp("m") / "bert"))}


def settings(task, **values):
    return settings_of({"task": task, "model": "m", "output_dir": "o", **values})


def test_a_vocabulary_of_words_keeps_markers_places_and_segments():
    vocab = WordVocab(["mia was here"])
    window = WordEncoder(vocab).encode("mia  was", "here gone", Cut(20))[0]
    words = ["<sos>", "mia", "was", "<eos>", "here", "<unk>", "<eos>"]
    assert window.ids == [vocab.stoi[word] for word in words]
    assert window.types == [0, 0, 0, 0, 1, 1, 1]
    assert window.parts == [None, 0, 0, None, 1, 1, None]
    assert window.words == [None, 0, 1, None, 0, 1, None]
    assert [("mia  was")[a:b] for a, b in window.offsets[1:3]] == ["mia", "was"]
    assert window.is_cut is False


def test_long_pairs_are_cut_from_the_longer_text_by_both_encoders(encoders):
    for encoder in encoders.values():
        window = encoder.encode("a b c d e f g h", "i j", Cut(9))[0]
        assert (len(window.ids), window.is_cut) == (9, True)
        assert {1} <= set(window.parts)
        assert window.parts.count(0) == 4


@pytest.mark.parametrize("kind", ["words", "fast"])
def test_windows_cover_the_context_and_share_their_stride(kind, encoders):
    context = " ".join(random.Random(0).choices(WORDS, k=60))
    windows = encoders[kind].encode("a b", context, Cut(20, stride=5))
    whole = encoders[kind].encode("a b", context, Cut(1000, stride=5))[0]
    places = [[o for o, p in zip(w.offsets, w.parts, strict=True) if p == 1] for w in windows]
    wanted = [o for o, p in zip(whole.offsets, whole.parts, strict=True) if p == 1]
    assert all(len(w.ids) <= 20 and w.is_cut for w in windows)
    for before, after in pairwise(places):
        assert before[-5:] == after[:5]
    assert sorted({o for some in places for o in some}) == wanted
    assert all(w.offsets[1][0] == 0 for w in windows)


@pytest.mark.parametrize("kind", ["words", "fast"])
def test_every_answer_is_found_whole_in_some_window_and_read_back(kind, encoders):
    draw = random.Random(1)
    examples = []
    for i in range(40):
        context = " ".join(draw.choices(WORDS, k=draw.randint(5, 60)))
        places = [n for n, letter in enumerate(context) if letter == " " or n == 0]
        start = draw.choice(places)
        start += context[start] == " "
        end = context.find(" ", start + draw.randint(0, 6))
        answer = context[start : end if end > 0 else len(context)]
        examples.append(Example(f"f:{i}", "a b", context, answers=[(answer, start)]))
    asked = settings("question-answering", max_length=24, stride=8)
    features = make_features(examples, encoders[kind], asked)
    found = set()
    starts, ends = [], []
    for item, window, owner in zip(features.items, features.windows, features.owners, strict=True):
        begin, close = item["start_positions"], item["end_positions"]
        start, end = torch.full((24,), -9.0), torch.full((24,), -9.0)
        if begin:
            text = examples[owner].pair[window.offsets[begin][0] : window.offsets[close][1]]
            assert text == examples[owner].answers[0][0]
            found.add(owner)
            start[begin] = end[close] = 9.0
        starts.append(start)
        ends.append(end)
    assert found == set(range(40))
    assert len(features) > 40
    said = predict_answers(starts, ends, features, examples, 30)
    assert said.values == [example.answers[0][0] for example in examples]
    assert min(said.confidence) > 0.5


def test_answers_are_no_longer_than_asked_for(encoders):
    example = Example("f:1", "a", "b c d e f g")
    features = make_features([example], encoders["words"], settings("question-answering", max_length=24, stride=8))
    start, end = torch.zeros(24), torch.zeros(24)
    start[3], end[8] = 9.0, 9.0
    assert predict_answers([start], [end], features, [example], 6).values == ["b c d e f g"]
    short = predict_answers([start], [end], features, [example], 3).values[0]
    assert 1 <= len(short.split()) <= 3


def test_a_question_without_room_for_its_context_is_an_error(encoders):
    for encoder in encoders.values():
        with pytest.raises(InputError, match="E-FINETUNE-LENGTH"):
            encoder.encode(" ".join(WORDS), "a b c", Cut(24, stride=8))


def test_tags_stand_on_the_first_piece_of_each_word(encoders):
    candidates = [a + b for a in ("film", "good", "plot") for b in ("was", "the", "and", "cast")]
    windows = [encoders["fast"].encode(["film", word, "was"], None, Cut(20))[0] for word in candidates]
    window = max(windows, key=lambda each: len(each.ids))
    assert window.words.count(1) > 1
    labels = align(window, [5, 6, 7], False)
    firsts = {word: window.words.index(word) for word in (0, 1, 2)}
    assert {labels[i] for i in firsts.values()} == {5, 6, 7}
    assert [label for i, label in enumerate(labels) if i not in firsts.values()] == [IGNORED] * (len(labels) - 3)
    spread = align(window, [5, 6, 7], True)
    assert [label for label, word in zip(spread, window.words, strict=True) if word == 1] == [6] * window.words.count(1)


def test_tags_that_are_cut_off_are_counted(encoders):
    example = Example("f:1", words=WORDS, label=[0] * len(WORDS))
    features = make_features([example], encoders["words"], settings("token-classification", max_length=10))
    assert (features.n_cut, features.lost_tags) == (1, len(WORDS) - 8)


def test_special_words_in_a_text_are_text(encoders):
    window = encoders["fast"].encode("[SEP] [MASK]", None, Cut(20))[0]
    assert 3 not in window.ids[1:-1]
    assert 4 not in window.ids


def test_texts_of_language_models_fill_whole_blocks(encoders):
    examples = [Example("f:1", " ".join(WORDS)), Example("f:2", "a b c")]
    features = make_features(examples, encoders["words"], settings("causal-lm", max_length=10))
    assert [len(item["input_ids"]) for item in features.items] == [10, 10, 10]
    assert features.items[0]["labels"] == features.items[0]["input_ids"]
    with pytest.raises(InputError, match="less than one block"):
        make_features(examples, encoders["words"], settings("causal-lm", max_length=100))


def test_an_ending_is_put_between_texts_where_the_tokenizer_has_none():
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<end>": 0, "a": 1, "b": 2}, "<end>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    encoder = FastEncoder(tokenizer.to_str(), 0, end_id=0)
    examples = [Example("f:1", "a b"), Example("f:2", "b a")]
    assert make_features(examples, encoder, settings("causal-lm", max_length=6)).items[0]["input_ids"] == [1, 2, 0, 2, 1, 0]


def test_subword_vocabularies_give_the_ids_of_pretraining():
    pytest.importorskip("tokenizers")
    from collections import Counter

    from bert_pytorch.dataset.tokenizer import train_subwords

    for model in ("WordPiece", "BPE"):
        vocab = train_subwords(Counter(["mia", "miller", "mill"] * 5), model)
        window = encoder_of(vocab).encode("mia miller", "mill", Cut(99))[0]
        assert window.ids == [3, *vocab.to_seq("mia miller"), 2, *vocab.to_seq("mill"), 2]
        assert window.types[-1] == 1


def test_batches_are_padded_and_nothing_else():
    items = [{"input_ids": [3, 5, 2], "token_type_ids": [0, 0, 0], "labels": [IGNORED, 1, IGNORED]}]
    items.append({"input_ids": [3, 5, 6, 7, 2], "token_type_ids": [0] * 5, "labels": [IGNORED, 1, 2, 0, IGNORED]})
    batch = PaddingCollator(0)(items)
    assert batch["input_ids"].tolist() == [[3, 5, 2, 0, 0], [3, 5, 6, 7, 2]]
    assert batch["attention_mask"].sum(1).tolist() == [3, 5]
    assert batch["labels"][0].tolist() == [IGNORED, 1, IGNORED, IGNORED, IGNORED]
    sets = PaddingCollator(0)([{"input_ids": [1], "token_type_ids": [0], "labels": [1.0, 0.0, 1.0]}] * 2)
    assert sets["labels"].shape == (2, 3)


def test_masks_hide_the_share_asked_for_and_no_special():
    collator = MaskingCollator(PaddingCollator(0), 4, [0, 1, 2, 3, 4], 1000, 0.15)
    torch.manual_seed(0)
    rows = [{"input_ids": [2, *torch.randint(5, 1000, (98,)).tolist(), 3], "token_type_ids": [0] * 100}] * 200
    batch = collator(rows)
    hidden = batch["labels"] != IGNORED
    original = torch.tensor([row["input_ids"] for row in rows])
    assert not hidden[:, [0, -1]].any()
    assert hidden[:, 1:-1].float().mean() == pytest.approx(0.15, abs=0.01)
    assert (batch["labels"][hidden] == original[hidden]).all()
    assert (batch["input_ids"][~hidden] == original[~hidden]).all()
    shown = batch["input_ids"][hidden]
    assert (shown == 4).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (shown == original[hidden]).float().mean() == pytest.approx(0.1, abs=0.03)
    one = MaskingCollator(PaddingCollator(0), 4, [0, 2, 3, 4], 10, 1e-9)([{"input_ids": [2, 7, 3], "token_type_ids": [0] * 3}])
    assert (one["labels"] != IGNORED).tolist() == [[False, True, False]]


def test_native_batches_hold_each_row_once_in_an_order_of_seed_and_pass(encoders):
    draw = random.Random(0)
    examples = [Example(f"f:{i}", " ".join(draw.choices(WORDS, k=draw.randint(1, 20))), label=0) for i in range(101)]
    features = make_features(examples, encoders["words"], settings("sequence-classification"))
    batches = NativeBatches(features, PaddingCollator(0), 8, 1)
    first, second = batches.shuffled(0), batches.shuffled(1)
    assert sorted(i for rows in first for i in rows) == list(range(101))
    assert first == batches.shuffled(0) != second
    assert len(first) == len(batches) == 13
    n_places = sum(len(rows) * max(batches.lengths[i] for i in rows) for rows in first)
    assert n_places < 1.2 * sum(batches.lengths)

"""What each task must leave, looked for in its folder; nothing but the files counts.

A check is a function of a folder that yields, for each assertion of `evals.json` in its order, whether it holds and what was
seen. What ends it early (a file that is missing or cannot be read) fails that assertion and all behind it.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import fixtures
import texts
import torch
from torch.utils.data import DataLoader

from bert_pytorch.dataset.dataset import BERTDataset
from bert_pytorch.inference.loading import Loaded, open_model

Seen = tuple[bool, str]
SEQ_LEN = 128


def answer_of(folder: Path) -> dict[str, object]:
    """What answer.json says."""
    return json.loads((folder / "answer.json").read_text(encoding="utf-8"))


def number(answer: dict[str, object], name: str) -> float:
    """A number of the answer; not a number where there is none."""
    value = answer.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def opened(folder: Path, answer: dict[str, object]) -> Loaded:
    """The model and the vocabulary that the answer names."""
    return open_model(str(folder / str(answer["model"])), str(folder / str(answer["vocabulary"])))


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    return path.read_text(encoding="utf-8").splitlines()


@torch.no_grad()
def measured(loaded: Loaded, path: Path) -> dict[str, float]:
    """A model's losses on a file, drawn anew: nats a masked word, what word frequencies give, next-sentence accuracy."""
    objective = "mlm+nsp" if "\t" in lines_of(path)[0] else "mlm"
    data = BERTDataset(str(path), loaded.vocab, min(SEQ_LEN, loaded.model.bert.max_len), seed=977, objective=objective)
    loss = n = right = pairs = 0.0
    targets: Counter[int] = Counter()
    for batch in DataLoader(data, batch_size=64):
        next_BC, words_BLV = loaded.model(batch["bert_input"], batch["segment_label"])
        is_target = batch["bert_label"] > 0
        wanted = batch["bert_label"][is_target]
        loss -= float(words_BLV[is_target].gather(1, wanted[:, None]).double().sum())
        n += len(wanted)
        targets.update(wanted.tolist())
        if "is_next" in batch:
            right += int((next_BC.argmax(1) == batch["is_next"]).sum())
            pairs += len(next_BC)
    frequencies = -sum(count * math.log(count / n) for count in targets.values()) / n
    return {"loss": loss / n, "frequencies": frequencies, "next": right / pairs if pairs else math.nan, "targets": n}


def near(said: float, true: float, share: float) -> Seen:
    """Whether a number is another one but for a share of it."""
    return abs(said - true) <= share * abs(true), f"said {said:.4g}, measured {true:.4g}"


def pretrained(
    folder: Path, is_vocabulary_good: Callable[[list[str]], Seen], bound: Callable[[dict[str, float]], float]
) -> Iterator[Seen]:
    """The four assertions of pretraining."""
    answer = answer_of(folder)
    loaded = opened(folder, answer)
    yield True, f"{loaded.model.bert.n_layers} layers, {len(loaded.vocab)} words"
    yield is_vocabulary_good(list(loaded.vocab.itos[5:]))
    figures = measured(loaded, folder / str(answer["held_out_file"]))
    yield figures["loss"] < bound(figures) and figures["targets"] >= 100, f"{figures}"
    # Which words are hidden, and how many, is drawn otherwise here.
    yield near(number(answer, "held_out_loss"), figures["loss"], 0.3)


def log_pretraining(folder: Path) -> Iterator[Seen]:
    """A log's model."""

    def is_masked(words: list[str]) -> Seen:
        varying = [word for word in words if sum(letter.isdigit() for letter in word) >= 4]
        return len(varying) <= 5, f"{len(varying)} words with four digits or more"

    return pretrained(folder, is_masked, lambda figures: figures["frequencies"] / 2)


def protein_pretraining(folder: Path) -> Iterator[Seen]:
    """A model of letters."""

    def is_letters(words: list[str]) -> Seen:
        found = {word.upper() for word in words}
        return set(texts.AMINO_ACIDS) <= found and len(found) <= 26, f"{len(found)} words"

    return pretrained(folder, is_letters, lambda _: 2.9)


def faulty_corpus(folder: Path) -> Iterator[Seen]:
    """A clean corpus."""
    good, lines = fixtures.good_pairs(), lines_of(folder / "clean.txt")
    yield (
        bool(lines) and all(len(line.split("\t")) == 2 and all(map(str.strip, line.split("\t"))) for line in lines),
        (f"{len(lines)} lines"),
    )
    missing = set(good) - set(lines)
    yield not missing, f"{len(missing)} good pairs are missing"
    foreign = set(lines) - set(good)
    yield not foreign, f"{len(foreign)} lines are no good pair"
    said, true = number(answer_of(folder), "bad_lines"), sum(fixtures.FAULTS.values())
    yield said == true, f"said {said}, there are {true}"


def interrupted_run(folder: Path) -> Iterator[Seen]:
    """A run that was gone on with."""
    from bert_pytorch.trainer.checkpoint import load_model

    mine = load_model(folder / "run" / "checkpoint-120").state_dict()
    yield True, "there"
    with tempfile.TemporaryDirectory() as place:
        other = Path(place)
        for name in ("train.txt", "held_out.txt", "vocab.json"):
            (other / name).write_bytes((folder / name).read_bytes())
        fixtures.bert(fixtures.RESUME_FLAGS, other)
        whole = load_model(other / "run" / "checkpoint-120").state_dict()
    yield all(torch.equal(mine[name], value) for name, value in whole.items()), "weights compared"
    answer = answer_of(folder)
    yield number(answer, "steps") == 120, f"said {number(answer, 'steps')}"
    loaded = open_model(str(folder / "run" / "checkpoint-120"), str(folder / "vocab.json"))
    yield near(number(answer, "held_out_loss"), measured(loaded, folder / "held_out.txt")["loss"], 0.15)


def planning(folder: Path) -> Iterator[Seen]:
    """A plan beside the run."""
    answer = answer_of(folder)
    with tempfile.TemporaryDirectory() as place:
        other = Path(place)
        fixtures.planning(other)
        fixtures.vocabulary(other)
        words = "-c train.txt -v vocab.json -o m -hs 128 -l 3 -a 4 -s 32 -b 16 -e 2 --device cpu"
        report = json.loads(fixtures.bert(words, other))
    said, true = number(answer, "parameters"), report["parameters"]
    yield said == true, f"said {said}, it has {true}"
    memory, seconds = float(report["peak_memory_bytes"]), float(report["elapsed_seconds"]) * 5
    said = number(answer, "memory_bytes")
    yield memory / 1.6 < said < memory * 1.6, f"said {said:.4g}, a run takes {memory:.4g}"
    said = number(answer, "seconds")
    yield seconds / 2.5 < said < seconds * 2.5, f"said {said:.4g}, a run takes {seconds:.4g}"


def classification(folder: Path) -> Iterator[Seen]:
    """Kinds of tickets."""
    true = [kind for _, kind in fixtures.tickets()[1]]
    said = [line.strip() for line in lines_of(folder / "predictions.txt")]
    yield len(said) == len(true), f"{len(said)} lines"
    accuracy = sum(one == other for one, other in zip(said, true, strict=True)) / len(true)
    yield accuracy >= 0.85, f"{accuracy:.3f}"
    from bert_pytorch.finetuning.predicting import predict_file, record_of

    answer = answer_of(folder)
    with tempfile.TemporaryDirectory() as place:
        rows = Path(place) / "rows.tsv"
        rows.write_text("\n".join(["text", *lines_of(folder / "unlabelled.txt")]) + "\n", encoding="utf-8")
        answered = predict_file(str(folder / str(answer["model"])), str(rows), with_labels=False)
    again = [record_of(answered, i)["label"] for i in range(len(true))]
    same = sum(one == other for one, other in zip(again, said, strict=True))
    yield same >= 0.99 * len(true), f"{same} of {len(true)} alike"
    yield abs(number(answer, "accuracy") - accuracy) <= 0.1, f"said {number(answer, 'accuracy'):.3f}"


def sentences_of(path: Path) -> list[list[tuple[str, str]]]:
    """Words and tags of a file in columns, by sentence."""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    return [[(line.split()[0], line.split()[-1]) for line in block.splitlines()] for block in blocks]


def tagging(folder: Path) -> Iterator[Seen]:
    """Tags of words."""
    from bert_pytorch.finetuning.metrics import entities

    true, said = fixtures.sentences_to_tag(), sentences_of(folder / "tagged.conll")
    words = [[word for word, _ in sentence] for sentence in said]
    yield words == [[word for word, _ in sentence] for sentence in true], f"{len(said)} sentences"
    tags = [[[tag for _, tag in sentence] for sentence in each] for each in (said, true)]
    f1 = entities(tags[0], tags[1])["entity_f1"]
    yield f1 >= 0.8, f"{f1:.3f}"


def odd_lines(folder: Path) -> Iterator[Seen]:
    """Lines that do not belong."""
    lines, planted = fixtures.log_to_search()
    said = [int(line.split()[0]) for line in lines_of(folder / "suspicious.txt") if line.strip()]
    yield len(said) == len(set(said)) == 24 and all(1 <= i <= len(lines) for i in said), f"{len(said)} numbers"
    found = len(set(said) & set(planted))
    yield found >= 10, f"{found} of {len(planted)}"


def export(folder: Path) -> Iterator[Seen]:
    """A folder for Transformers."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    theirs = AutoModelForMaskedLM.from_pretrained(folder / "hub", local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "hub", local_files_only=True)
    yield True, type(theirs).__name__
    loaded = open_model(str(folder / "bert.ckpt"), str(folder / "vocab.json"))
    said = [line.split("\t")[0] for line in lines_of(folder / "train.txt")[:20]]
    ours = [loaded.vocab.to_seq(text, with_sos=True, with_eos=True) for text in said]
    yield [tokenizer(text)["input_ids"] for text in said] == ours, "20 texts"
    worst = 0.0
    with torch.no_grad():
        for text, ids in zip(said, ours, strict=True):
            x_BL = torch.tensor([ids])
            scores = theirs(**tokenizer(text, return_tensors="pt")).logits.log_softmax(-1)
            worst = max(worst, float((loaded.model(x_BL, torch.ones_like(x_BL))[1] - scores).abs().max()))
    yield worst < 1e-4, f"{worst:.2g}"


def vectors(folder: Path) -> Iterator[Seen]:
    """Vectors and neighbours."""
    import numpy as np

    from bert_pytorch.inference.embedding import Embedder

    rows = lines_of(folder / "texts.txt")
    said = torch.from_numpy(np.load(folder / "vectors.npy", allow_pickle=False)).float()
    yield len(said) == len(rows), f"{list(said.shape)}"
    loaded = open_model(str(folder / "bert.ckpt"), str(folder / "vocab.json"))
    embed = Embedder(loaded.model.bert, loaded.vocab)
    true, queries = embed(rows), embed(lines_of(folder / "queries.txt"))
    alike = [torch.nn.functional.normalize(each, dim=-1) for each in (said, true)]
    worst = min(float((said - true).abs().max()), float((alike[0] - alike[1]).abs().max()))
    yield worst < 1e-4, f"{worst:.2g}"
    nearest = (torch.nn.functional.normalize(queries, dim=-1) @ alike[1].T).argmax(1) + 1
    numbers = json.loads((folder / "nearest.json").read_text(encoding="utf-8"))
    yield numbers == nearest.tolist(), f"said {numbers}, they are {nearest.tolist()}"


def old_files(folder: Path) -> Iterator[Seen]:
    """Files of 0.0.1a4 in today's form."""
    loaded = open_model(str(folder / "new.ckpt"), str(folder / "new_vocab.json"))
    yield True, f"{loaded.model.bert.n_layers} layers"
    yield list(loaded.vocab.itos) == fixtures.OLD_WORDS, f"{len(loaded.vocab)} words"
    from bert_pytorch.interop.legacy import load_old_model

    old = load_old_model(folder / "bert.model.ep0")[0].bert.state_dict()
    new = loaded.model.bert.state_dict()
    yield all(torch.equal(new[name], value) for name, value in old.items()), f"{len(old)} tensors"
    answer = answer_of(folder)
    wanted = {"words": 23, "word_7": "w2", "layers": 2, "hidden": 15}
    yield all(answer.get(name) == value for name, value in wanted.items()), f"{answer}"


def old_script(folder: Path) -> Iterator[Seen]:
    """A model that tells next sentences."""
    answer = answer_of(folder)
    loaded = opened(folder, answer)
    yield True, f"{loaded.model.bert.n_layers} layers"
    with tempfile.TemporaryDirectory() as place:
        fresh = Path(place)
        fixtures.write(fresh, "fresh.txt", fixtures.story_pairs(939, 150))
        accuracy = measured(loaded, fresh / "fresh.txt")["next"]
    yield accuracy > 0.6, f"{accuracy:.3f}"
    said = number(answer, "next_sentence_accuracy")
    yield abs((said / 100 if said > 1 else said) - accuracy) <= 0.1, f"said {said}"
    yield len(str(answer.get("cause", ""))) > 20, str(answer.get("cause"))[:120]


CHECKS: dict[str, Callable[[Path], Iterator[Seen]]] = {
    "log-pretraining": log_pretraining,
    "protein-pretraining": protein_pretraining,
    "faulty-corpus": faulty_corpus,
    "interrupted-run": interrupted_run,
    "planning": planning,
    "classification": classification,
    "tagging": tagging,
    "odd-lines": odd_lines,
    "export": export,
    "vectors": vectors,
    "old-files": old_files,
    "old-script": old_script,
}

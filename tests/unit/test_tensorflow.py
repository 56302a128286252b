"""Google's checkpoints of TensorFlow 1: the outputs of Transformers with the same weights; what is refused."""

import json
import sys
import warnings

import pytest
import torch

from bert_pytorch import BERT, BERTLM
from bert_pytorch.errors import InputError, UnavailableError
from bert_pytorch.interop.huggingface import load_pretrained
from bert_pytorch.interop.inspecting import inspect

from .examples import assert_one_line, load_script
from .hub_folders import HUB_WORDS, stirred

ENDINGS = {"LayerNorm.weight": "LayerNorm/gamma", "LayerNorm.bias": "LayerNorm/beta"}


@pytest.fixture(scope="module")
def tf():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def theirs():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 53}
    config = transformers.BertConfig(vocab_size=len(HUB_WORDS), max_position_embeddings=31, **sizes)
    return stirred(transformers.BertForPreTraining(config))


def google_name(name):
    """Their name for a tensor of Transformers, as Google's `modeling.py` and `run_pretraining.py` make it."""
    for end, google in ENDINGS.items():
        name = name.removesuffix(end) + google if name.endswith(end) else name
    name = name.replace("cls.predictions.bias", "cls/predictions/output_bias").replace(".layer.", ".layer_")
    name = name.replace("cls.seq_relationship.weight", "cls/seq_relationship/output_weights")
    name = name.replace("cls.seq_relationship.bias", "cls/seq_relationship/output_bias")
    name = name.replace("_embeddings.weight", "_embeddings")
    return name.replace(".weight", ".kernel").replace(".", "/")


def google_weights(model):
    """By name; kernels turned, and the state of the optimiser beside them."""
    state = {name: value for name, value in model.state_dict().items() if "decoder" not in name and "position_ids" not in name}
    weights = {google_name(name): value for name, value in state.items()}
    weights = {name: (value.t() if name.endswith("/kernel") else value).contiguous().numpy() for name, value in weights.items()}
    moments = {f"{name}/{kind}": value * 0 for name, value in weights.items() for kind in ("adam_m", "adam_v")}
    return {**weights, **moments}


def write_folder(tf, folder, model, by_saver=False):
    """A folder as Google released models."""
    folder.mkdir()
    values, prefix = google_weights(model), str(folder / "bert_model.ckpt")
    config = model.config
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "type_vocab_size")
    names += ("hidden_act", "max_position_embeddings", "hidden_dropout_prob", "attention_probs_dropout_prob")
    (folder / "bert_config.json").write_text(json.dumps({name: getattr(config, name) for name in names}))
    (folder / "vocab.txt").write_text("\n".join(HUB_WORDS) + "\n")
    if by_saver:
        v1 = tf.compat.v1
        with v1.Graph().as_default(), v1.Session() as session:
            variables = [v1.get_variable(name, initializer=value, use_resource=False) for name, value in values.items()]
            variables.append(v1.train.get_or_create_global_step())
            session.run(v1.global_variables_initializer())
            v1.train.Saver(variables).save(session, prefix)
        return folder
    values["global_step"] = torch.tensor(7).numpy()
    names = list(values)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=[tf.constant(values[n]) for n in names]
    )
    return folder


def outputs_of(theirs, found):
    """Ours and theirs for a padded batch: hidden states, next sentence, words."""
    ids = torch.tensor([[3, 6, 7, 2, 8, 9, 2], [3, 11, 2, 0, 0, 0, 0]])
    segments = torch.tensor([[1, 1, 1, 1, 2, 2, 2], [1, 1, 1, 0, 0, 0, 0]])
    with torch.no_grad():
        outputs = theirs(
            torch.tensor(found.their_ids)[ids],
            attention_mask=(ids != 0).long(),
            token_type_ids=(segments - 1).clamp(min=0),
            output_hidden_states=True,
        )
        ours = found.model.bert(ids, segments), *found.model(ids, segments)
    real = ids != 0
    words = outputs.prediction_logits.log_softmax(-1)[..., found.their_ids][real]
    expected = (outputs.hidden_states[-1][real], outputs.seq_relationship_logits.log_softmax(-1).flip(-1), words)
    return zip((ours[0][real], ours[1], ours[2][real]), expected, strict=True)


@pytest.mark.parametrize("by_saver", [False, True], ids=["save-v2", "saver"])
def test_google_weights_give_the_outputs_of_transformers(by_saver, tf, theirs, tmp_path):
    folder = write_folder(tf, tmp_path / "google", theirs, by_saver)
    found = load_pretrained(folder)
    assert (found.new, found.left_out) == ([], [])
    assert found.their_ids[:6] == [0, 2, 4, 3, 5, 1]
    for ours, expected in outputs_of(theirs, found):
        assert (ours - expected).abs().max() < 1e-5
    state = found.model.state_dict()
    assert torch.equal(BERT.from_pretrained(folder).embedding.token.weight, state["bert.embedding.token.weight"])
    assert torch.equal(BERTLM.from_pretrained(folder).next_sentence.linear.weight, state["next_sentence.linear.weight"])


def test_scripts_take_such_a_folder(tf, theirs, tmp_path, capsys):
    folder = write_folder(tf, tmp_path / "google", theirs)
    assert inspect(folder)["kind"] == "hub-folder"
    flags = ["--model", str(folder), "--output", str(tmp_path / "start"), "--output_vocab", str(tmp_path / "vocab.json")]
    assert load_script("inference-and-export", "import_model").main([*flags, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["begins_anew"], report["vocab_size"]) == ([], len(HUB_WORDS))


@pytest.mark.parametrize("name", ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_damaged_files_are_refused_by_name(name, share, tf, theirs, tmp_path):
    folder = write_folder(tf, tmp_path / "google", theirs)
    content = (folder / name).read_bytes()
    # The weights are the first third of the data, the optimiser's state follows them.
    (folder / name).write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputError) as caught:
        load_pretrained(folder)
    assert_one_line(caught.value, folder, "E-HUB-WEIGHTS")


def test_checkpoints_of_tensorflow_2_and_of_other_things_are_refused(tf, theirs, tmp_path):
    folder = write_folder(tf, tmp_path / "google", theirs)
    for value, says in (
        (tf.train.Checkpoint(weight=tf.Variable([1.0])), "a checkpoint of TensorFlow 2 objects"),
        (["../../w"], "is no name of a tensor; do not trust this file"),
    ):
        for path in folder.glob("bert_model.ckpt*"):
            path.unlink()
        if isinstance(value, list):
            tf.raw_ops.SaveV2(
                prefix=str(folder / "bert_model.ckpt"), tensor_names=value, shape_and_slices=[""], tensors=[tf.constant([1.0])]
            )
        else:
            value.write(str(folder / "bert_model.ckpt"))
        with pytest.raises(InputError, match=says) as caught:
            load_pretrained(folder)
        assert_one_line(caught.value, folder, "E-HUB-WEIGHTS")


def test_without_tensorflow_its_install_line_is_said(tmp_path, monkeypatch):
    sizes = {"vocab_size": 9, "hidden_size": 20, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 80}
    (tmp_path / "bert_config.json").write_text(json.dumps({**sizes, "max_position_embeddings": 31}))
    (tmp_path / "bert_model.ckpt.index").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(UnavailableError, match=r"python -m pip install tensorflow \[E-DEPENDENCY\]"):
        load_pretrained(tmp_path)
    (tmp_path / "model.ckpt-7.index").write_bytes(b"")
    with pytest.raises(InputError, match=r"holds 2 checkpoints \(bert_model.ckpt, model.ckpt-7\)") as caught:
        load_pretrained(tmp_path)
    assert_one_line(caught.value, tmp_path, "E-HUB-WEIGHTS")

"""Import paths, parameters and public names of 0.0.1a4 are here, but for the tables below (clients/signatures.py)."""

import pytest

OTHER_DEFAULTS = {"BERTTrainer.__init__": {"warmup_steps": (10_000, None)}}
"""Parameter: the default of 0.0.1a4, and ours on purpose (references/provenance.md)."""
DROPPED_PARAMETERS = {"TorchVocab.__init__": ["vectors", "unk_init", "vectors_cache"]}
IDLE_METHODS = {"Vocab.to_seq", "Vocab.from_seq"}
"""They did nothing and returned None; here they are those of every vocabulary."""
DROPPED_ATTRIBUTES = {"TorchVocab": {"vectors"}, "WordVocab": {"vectors"}}
DROPPED_PATHS = {
    "bert_pytorch.__main__": {"BERT", "BERTDataset", "BERTTrainer", "WordVocab"},
    "bert_pytorch.model.attention": {"Attention"},
    "bert_pytorch.model.attention.multi_head": {"Attention", "MultiHeadedAttention"},
    "bert_pytorch.model.attention.single": {"Attention"},
    "bert_pytorch.model.embedding.bert": {"BERTEmbedding", "PositionalEmbedding", "SegmentEmbedding", "TokenEmbedding"},
    "bert_pytorch.model.embedding.position": {"PositionalEmbedding"},
    "bert_pytorch.model.embedding.segment": {"SegmentEmbedding"},
    "bert_pytorch.model.embedding.token": {"TokenEmbedding"},
    "bert_pytorch.model.transformer": {"SublayerConnection"},
    "bert_pytorch.model.utils": {"GELU", "LayerNorm", "PositionwiseFeedForward", "SublayerConnection"},
    "bert_pytorch.model.utils.feed_forward": {"GELU", "PositionwiseFeedForward"},
    "bert_pytorch.model.utils.gelu": {"GELU"},
    "bert_pytorch.model.utils.layer_norm": {"LayerNorm"},
    "bert_pytorch.model.utils.sublayer": {"LayerNorm", "SublayerConnection"},
}
"""Parts of the old encoder that this one has no use for, and names a module had only because it used them."""
FUNCTIONS = [
    *("train", "build", "BERT.__init__", "BERT.forward", "BERTLM.__init__", "BERTLM.forward", "BERTTrainer.__init__"),
    *("BERTTrainer.train", "BERTTrainer.test", "BERTTrainer.iteration", "BERTTrainer.save", "ScheduledOptim.__init__"),
    *("ScheduledOptim.step_and_update_lr", "ScheduledOptim.zero_grad", "TorchVocab.__init__", "TorchVocab.extend"),
    *("TorchVocab.vocab_rerank", "Vocab.__init__", "Vocab.extend", "Vocab.load_vocab", "Vocab.save_vocab"),
    *("Vocab.vocab_rerank", "WordVocab.__init__", "WordVocab.extend", "WordVocab.from_seq", "WordVocab.load_vocab"),
    *("WordVocab.save_vocab", "WordVocab.to_seq", "WordVocab.vocab_rerank", "BERTDataset.__init__"),
    *("BERTDataset.get_corpus_line", "BERTDataset.get_random_line", "BERTDataset.random_sent", "BERTDataset.random_word"),
]


@pytest.fixture
def sides(run_both):
    return run_both("modelling", part="signatures")


def test_the_lists_of_this_file_are_those_of_0_0_1a4(sides):
    assert sides.theirs["walked"] == sides.theirs["listed"]
    assert sides.theirs["missing"] == []
    assert {*FUNCTIONS, *IDLE_METHODS} == set(sides.theirs["signatures"])


def test_every_import_path_is_kept_but_for_the_table(sides):
    missing = {}
    for path, name in sides.ours["missing"]:
        missing.setdefault(path, set()).add(name)
    assert missing == DROPPED_PATHS


@pytest.mark.parametrize("function", FUNCTIONS)
def test_parameters_come_first_in_the_same_order_with_the_same_defaults(sides, function):
    dropped = DROPPED_PARAMETERS.get(function, [])
    theirs = [parameter for parameter in sides.theirs["signatures"][function] if parameter[0] not in dropped]
    assert function in sides.ours["signatures"], f"{function} is missing"
    ours, new = sides.ours["signatures"][function][: len(theirs)], sides.ours["signatures"][function][len(theirs) :]
    assert [parameter[:2] for parameter in ours] == [parameter[:2] for parameter in theirs]
    pairs = {old[0]: (old[2], now[2]) for old, now in zip(theirs, ours, strict=True) if old[2] != now[2]}
    other = OTHER_DEFAULTS.get(function, {})
    assert pairs == {name: ({"default": old}, {"default": now}) for name, (old, now) in other.items()}
    assert all(default is not None for _, _, default in new)


@pytest.mark.parametrize(
    "function", ["BERT.__init__", "BERTTrainer.__init__", "BERTDataset.__init__", "ScheduledOptim.__init__"]
)
def test_new_options_are_keyword_only(sides, function):
    new = sides.ours["signatures"][function][len(sides.theirs["signatures"][function]) :]
    assert {kind for _, kind, _ in new} == {"KEYWORD_ONLY"}


@pytest.mark.parametrize("function", sorted(IDLE_METHODS))
def test_methods_that_did_nothing_are_those_of_the_word_vocabulary(sides, function):
    assert function in sides.theirs["signatures"]
    assert sides.ours["signatures"][function] == sides.ours["signatures"][f"Word{function}"]


@pytest.mark.parametrize("parameter", DROPPED_PARAMETERS["TorchVocab.__init__"])
def test_parameters_without_a_use_are_not_kept(sides, parameter):
    assert parameter in [name for name, _, _ in sides.theirs["signatures"]["TorchVocab.__init__"]]
    assert parameter not in [name for name, _, _ in sides.ours["signatures"]["TorchVocab.__init__"]]


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("BERT", {"hidden", "n_layers", "attn_heads", "embedding", "transformer_blocks"}),
        ("BERTLM", {"bert", "next_sentence", "mask_lm"}),
        ("BERTEmbedding", {"token", "position", "segment", "dropout"}),
        (
            "BERTTrainer",
            {"bert", "model", "device", "train_data", "test_data", "optim", "optim_schedule", "criterion", "log_freq"},
        ),
        ("ScheduledOptim", {"n_warmup_steps", "n_current_steps", "init_lr"}),
        ("TorchVocab", {"itos", "stoi", "freqs"}),
        ("WordVocab", {"itos", "stoi", "freqs", "pad_index", "unk_index", "eos_index", "sos_index", "mask_index"}),
        ("BERTDataset", {"vocab", "seq_len", "lines", "corpus_lines", "corpus_path", "encoding", "on_memory"}),
    ],
)
def test_public_names_of_objects_are_kept(sides, kind, least):
    theirs, ours = (set(side["public names"][kind]) for side in sides)
    assert least <= theirs
    assert theirs - ours == DROPPED_ATTRIBUTES.get(kind, set())

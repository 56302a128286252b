"""The rules of the source tree: who imports whom, sizes, and what never occurs."""

import ast
import sys

import pytest

from .examples import LIBRARY, SCRIPTS, start_python

MODULES = {".".join(path.relative_to(LIBRARY).with_suffix("").parts): path for path in sorted(LIBRARY.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}

# Data flows down this list; a module imports only what stands above it. Parts on one line do not import each other.
FLOW = [
    ["errors"],
    ["files", "extras", "memory", "config", "launch", "allow_list", "devices", "estimate"],
    ["command", "folders"],
    ["dataset.draws", "dataset.lines", "dataset.remote"],
    ["dataset.corpus", "dataset.counting", "dataset.pieces"],
    ["dataset.vocab_file"],
    ["dataset.vocab"],
    ["dataset.tokenizer"],
    ["preparation.sources", "preparation.duplicates", "preparation.guessing"],
    ["preparation.layout", "preparation.words", "preparation.logs", "preparation.sentences"],
    ["preparation.pairing", "preparation.parts"],
    ["preparation.records"],
    ["preparation.documents"],
    ["preparation.faults"],
    ["preparation.fixing", "preparation.sizing"],
    ["preparation.checking"],
    ["dataset.ragged"],
    ["dataset.tensor_draws"],
    ["dataset.masking", "dataset.negatives"],
    ["dataset.examples"],
    ["dataset.encoding", "dataset.encoded_file"],
    ["dataset.encoded"],
    ["dataset.batching", "dataset.collating"],
    ["dataset.sharded"],
    ["dataset.dataset"],
    ["dataset.loader", "dataset.cache"],
    ["dataset.shard_writer"],
    ["model.recording"],
    ["model.dropout", "model.cross_entropy", "model.rotation"],
    ["model.embedding", "model.attention"],
    ["model.transformer"],
    ["model.language_model_head"],
    ["model.original"],
    ["model.bert"],
    ["model.language_model", "model.heads"],
    ["trainer"],
    ["interop"],
    ["inference"],
    ["finetuning"],
    ["inputs"],
    ["assembly"],
    ["paper_plan"],
    ["pipeline"],
    ["cli"],
    ["diagnosis"],
    ["__main__"],
]
# The names `build` and `load_vocab` had their place in `dataset.vocab` in bert-pytorch: the one is the command of today, the
# other reads sub-word vocabularies too.
UPWARD = {
    *{("dataset.vocab", "cli"), ("dataset.vocab", "dataset.tokenizer")},
    # `from_pretrained` and `save_pretrained` are Transformers' names for what stands far above a model.
    *{("model.bert", "interop.huggingface"), ("model.language_model", "interop.huggingface")},
}
OWN_ORDER = ("trainer", "interop", "inference", "finetuning", "diagnosis")
PRINTERS = {"command", "pipeline", "inputs", "dataset.cache"}


def rank(name):
    for i, names in enumerate(FLOW):
        if name in names or name.split(".")[0] in names:
            return i
    raise AssertionError(f"{name} has no place in the data flow")


def only_for_types(tree):
    """Statements that never run: what they import is named in annotations only."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {id(statement) for block in blocks for statement in block.body}


def imports(name, with_types=True):
    """Modules that a module of the library imports, wherever in the file: those of the library, and the others' roots."""
    own, foreign = set(), set()
    package, left_out = name.split(".")[:-1], set() if with_types else only_for_types(TREES[name])
    for node in ast.walk(TREES[name]):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            foreign |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            foreign.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                full = ".".join([*base, alias.name])
                own.add(full if full in MODULES else ".".join(base))
    return {found for found in own if found}, foreign


def modules():
    return [name for name in MODULES if not name.endswith("__init__")]


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def calls(tree, name):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == name]


def test_the_rules_look_at_the_whole_library():
    assert len(modules()) > 20
    inner = {"model.embedding", "model.original", "model.rotation", "model.transformer"}
    assert imports("model.bert")[0] == {"errors", "interop.huggingface", *inner}


@pytest.mark.parametrize("name", modules())
def test_imports_point_back_up_the_data_flow(name):
    # An import of a package is one of its foremost module, which its `__init__` names.
    packages = {"dataset": "dataset.dataset", "model": "model.language_model", "trainer": "trainer"}
    wrong = set()
    for found in imports(name)[0]:
        inside = found.split(".")[0] == name.split(".")[0] and name.split(".")[0] in OWN_ORDER
        if not inside and rank(packages.get(found, found)) >= rank(name) and (name, found) not in UPWARD:
            wrong.add(found)
    assert wrong == set()


def test_dataset_and_model_never_import_each_other():
    found = {
        (name, other)
        for name in MODULES
        for other in imports(name)[0]
        if {name.split(".")[0], other.split(".")[0]} == {"dataset", "model"}
    }
    assert found == set()


def test_no_modules_import_each_other_in_a_circle():
    # The parts of the trainer name its type; what runs is one way only.
    graph = {name: imports(name, with_types=False)[0] - {other for one, other in UPWARD if one == name} for name in modules()}
    done, open_now = set(), []

    def visit(name):
        assert name not in open_now, [*open_now, name]
        if name in done or name not in graph:
            return
        open_now.append(name)
        for other in sorted(graph[name]):
            visit(other)
        done.add(open_now.pop())

    for name in graph:
        visit(name)
    assert done == set(graph)


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("model.")])
def test_the_model_imports_torch_and_errors_only(name):
    own, foreign = imports(name)
    assert foreign - set(sys.stdlib_module_names) <= {"torch"}
    above = {other for one, other in UPWARD if one == name}
    assert {found for found in own if found.split(".")[0] != "model"} <= {"errors", *above}


def test_the_library_needs_torch_tqdm_and_yaml_and_no_script():
    foreign = set().union(*(imports(name)[1] for name in MODULES)) - set(sys.stdlib_module_names)
    assert foreign <= {"torch", "tqdm", "yaml"}


@pytest.mark.parametrize("name", MODULES)
def test_the_library_knows_no_path_of_the_bundle(name):
    nodes = list(ast.walk(TREES[name]))
    documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in documented]
    words = ("skills/", "scripts/", "references/", "benchmarks/", "tests/", "SKILL.md")
    assert [text for text in texts if isinstance(text, str) and any(word in text for word in words)] == []


@pytest.mark.parametrize("name", modules())
def test_the_library_prints_nothing_but_reports_of_the_commands(name):
    printed = [node for node in calls(TREES[name], "print") if name not in PRINTERS]
    assert printed == []
    for node in calls(TREES[name], "print"):
        file = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "file"]
        writers = [function.name for function in functions(TREES[name]) if node in ast.walk(function)]
        assert file == ["sys.stderr"] or writers == ["_write"]


@pytest.mark.parametrize("path", [*MODULES.values(), *SCRIPTS], ids=lambda path: path.name)
def test_files_and_functions_are_small(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    sizes = {function.name: function.end_lineno - function.lineno + 1 for function in functions(ast.parse(text))}
    assert {name: size for name, size in sizes.items() if size > 60} == {}


@pytest.mark.parametrize("path", [*MODULES.values(), *SCRIPTS], ids=lambda path: path.name)
def test_what_never_occurs(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert text.isascii()
    unsafe = ("pickle.load", "pickle.loads", "pickle.dump", "pickle.dumps", "breakpoint")
    assert [name for name in unsafe if calls(tree, name)] == []
    assert [call.lineno for call in calls(tree, "torch.load") if "weights_only=True" not in ast.unparse(call)] == []
    types = [ast.unparse(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "type"]
    assert "bool" not in types
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    broad = [node.lineno for node in handlers if node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")]
    assert broad == []
    assert [function.name for function in functions(tree) if function.args.kwarg is not None] == []
    assert path.stem not in ("utils", "util", "helpers", "common", "misc")
    assert "# noqa" not in text
    assert "type: ignore" not in text


@pytest.mark.parametrize("name", [name for name in modules() if name.startswith("dataset.")])
def test_data_code_draws_nothing_from_global_random_state(name):
    assert imports(name)[1] & {"random", "numpy", "secrets"} == set()
    kinds = ("rand", "randn", "randint", "randperm", "bernoulli")
    draws = [call for kind in kinds for call in calls(TREES[name], f"torch.{kind}")]
    assert [call.lineno for call in draws if "generator=" not in ast.unparse(call)] == []
    assert calls(TREES[name], "torch.manual_seed") == []


def test_help_and_a_vocabulary_come_without_importing_torch(tmp_path):
    """One process runs each command's and each script's help and builds a vocabulary; then it looks for torch."""
    program = """
import contextlib, io, runpy, sys
from bert_pytorch import parse_args
from bert_pytorch.cli import build_vocab, train
from bert_pytorch import WordVocab
texts = []
def helped(work):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            work()
        except SystemExit as end:
            assert end.code == 0, end.code
    texts.append(out.getvalue())
helped(lambda: train(["--help"]))
helped(lambda: build_vocab(["--help"]))
for script in sys.argv[1:]:
    sys.argv = [script, "--help"]
    helped(lambda: runpy.run_path(script, run_name="__main__"))
open("corpus.txt", "w").write("a b\\tc\\n")
assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json"]) == 0
assert WordVocab.load_vocab("vocab.json").to_seq("a") == [5]
assert "torch" not in sys.modules
for text in texts:
    assert text.startswith("usage: "), text
    assert text.isascii()
print(len(texts))
"""
    process = start_python("-c", program, *SCRIPTS, folder=tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == str(2 + len(SCRIPTS))

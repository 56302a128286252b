"""The remedy of every error code, executed: what failed is done again as the troubleshooting references say, and works."""

import ast
import warnings

import pytest
import torch

from bert_pytorch.errors import UserError

from .cures import CURE, ELSEWHERE, NOT_CURED
from .examples import ROOT
from .test_errors import PROVOKE


def test_every_code_is_cured_here_or_in_a_test_that_is_named():
    groups = [set(CURE), set(ELSEWHERE), set(NOT_CURED)]
    assert set().union(*groups) == set(PROVOKE)
    assert sum(map(len, groups)) == len(PROVOKE)
    assert len(NOT_CURED) == 1


@pytest.mark.parametrize("place", ELSEWHERE.values())
def test_the_tests_that_are_named_are_there(place):
    path, name = place.split("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("code", CURE)
def test_the_remedy_of_a_code_cures_it(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(UserError) as caught:
            PROVOKE[code]()
        assert caught.value.code == code
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CURE[code]()

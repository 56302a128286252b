"""One process with several GPUs, as bert-pytorch had it: parts of a batch are the batch, and torchrun is recommended.

Without GPUs `DataParallel` runs its module on the whole batch; here it parts the rows as it would among two.
"""

import pytest
import torch
from torch import nn

from bert_pytorch.trainer import pretrain

from .examples import make_batches, make_dataset, make_trainer
from .runs import loaders


@pytest.fixture
def two_gpus(monkeypatch):
    def in_two(self, *values):
        parts = [[None if value is None else value.chunk(2)[i] for value in values] for i in range(2)]
        assert len(parts[0][0]) < len(values[0])
        return torch.cat([self.module(*part) for part in parts])

    monkeypatch.setattr(nn.DataParallel, "forward", in_two)
    monkeypatch.setattr(pretrain, "choose_devices", lambda *_: (torch.device("cpu"), [0, 1]))


def trained(batches, **options):
    trainer = make_trainer(batches, batches, dropout=0.0, **options)
    report = trainer.train(0)
    return trainer, report, trainer.test(0)


def test_parts_of_a_batch_on_two_gpus_are_the_batch(request):
    batches = make_batches(n_padding=3)
    one, report, held_out = trained(batches)
    request.getfixturevalue("two_gpus")
    with pytest.warns(UserWarning, match="2 GPUs share each batch in one process; torchrun --nproc_per_node 2 is faster"):
        two, report_of_two, held_out_of_two = trained(batches)
    assert isinstance(two.model, nn.DataParallel)
    for name in ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy", "n_targets"):
        assert report_of_two[name] == pytest.approx(report[name], rel=1e-5)
        assert held_out_of_two[name] == pytest.approx(held_out[name], rel=1e-5)
    for name, value in one.language_model.state_dict().items():
        assert float((two.language_model.state_dict()[name] - value).abs().max()) < 1e-5


@pytest.mark.filterwarnings("ignore:2 GPUs share each batch")
def test_packed_rows_go_with_their_answers(request, tmp_path):
    make_dataset(tmp_path / "corpus.txt")
    batches = list(loaders(tmp_path, batch_size=6, packing=True)[0])
    assert len(batches[0]["bert_input"]) > 1
    _, report, _ = trained(batches, vocab_size=60)
    request.getfixturevalue("two_gpus")
    _, report_of_two, _ = trained(batches, vocab_size=60)
    for name in ("loss", "nsp_loss", "nsp_accuracy", "n_items"):
        assert report_of_two[name] == pytest.approx(report[name], rel=1e-5)

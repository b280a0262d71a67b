"""Training processes that are killed at random moments end with the bits of one that was not."""

import json

import pytest
from helpers import read_json

from toolkit.folder import RunFolder

CLASSIFIER = ["--plugin", "classifier", "--network", "mlp", "--steps", "150", "--best", "accuracy"]
GAN = ["--plugin", "gan", "--network", "mlp", "--steps", "80", "--sample-steps", "20"]
GAN += ["--evaluate-steps", "40", "--features", "pixels", "--quick-samples", "100"]
GAN += ["--score-samples", "100"]


@pytest.mark.slow
@pytest.mark.parametrize("plugin, reader", [(CLASSIFIER, "resident"), (CLASSIFIER, "stream")])
def test_the_first_plugin_survives_kills(cli, plugin, reader, monkeypatch, tmp_path):
    monkeypatch.setenv("TOOLKIT_CACHE", str(tmp_path / "cache"))
    check(cli, plugin + ["--input", reader], kills=4)


@pytest.mark.slow
def test_two_networks_survive_kills(cli):
    check(cli, GAN, kills=4)


def check(cli, argv, kills):
    made = cli("run", "--run-dir", "run", "--checkpoint-steps", "20", "--log-steps", "5", *argv)
    assert made.code == 0, made.err
    lines = RunFolder("run").metrics_texts()
    assert len(lines) > 10 and not any("examples_per_sec" in line for line in lines)
    told = cli("verify", "run", "--replay", ":", "--chaos", kills, "--seed", 3, "--json")
    assert told.code == 0, told.err
    facts = json.loads(told.out)
    last = RunFolder("run").checkpoints()[-1]
    assert sum(facts["chaos"]["kills"].values()) == kills
    assert last.tensors[:16] in facts["chaos"]["told"]
    assert last.tensors[:16] in facts["replay"]["told"]
    assert read_json("run", "manifest.json")["status"] == "finished"

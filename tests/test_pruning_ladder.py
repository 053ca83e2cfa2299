"""The pruning methods and refinements against their definitions (pruning_definition.py), on a random tiny model."""
import json

import numpy
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import pruning_definition
import tiny_model
from conftest import run_grille

SEQUENCES, CONTEXT = 8, 128  # eight: a power of 2, by which mean squares and sums of squares round alike
# The forward's fp32 sums in another order (2^-24 * sqrt of a few hundred terms), through problems of condition 100.
WEIGHT_TOLERANCE = 1e-5
# Of --refine weights: 20 conjugate gradients a round stand for the solved normal equations.
SOLVER_TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_model.make_directory(tmp_path_factory.mktemp("ladder") / "model")


@pytest.fixture(scope="module")
def ids(tmp_path_factory):
    file = tmp_path_factory.mktemp("ladder") / "ids.u16"
    numpy.random.default_rng(3).integers(0, 256, SEQUENCES * CONTEXT).astype(numpy.uint16).tofile(file)
    return file


def prune(model, ids, out, *options):
    return run_grille("prune", model, "-o", out, "--format", "dense", "--calibration", ids, "--samples", SEQUENCES,
                      "--context", CONTEXT, "--json", *options).json


def compare(model, ids, tmp_path, method, pattern, refinement, tolerance):
    report = prune(model, ids, tmp_path / "out", "--method", method, "--pattern", pattern, "--refine", refinement)
    errors = {layer["name"]: layer["relative_error"] for layer in report["layers"]}
    weights = load_file(tmp_path / "out" / "model.safetensors")
    dense = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()
    windows = torch.from_numpy(numpy.fromfile(ids, numpy.uint16).astype(numpy.int64)).view(SEQUENCES, CONTEXT)
    count = 0
    for name, expected, error in pruning_definition.prune_blocks(dense, windows, method, pattern, 2, refinement):
        found = weights[f"{name}.weight"]
        assert torch.equal(found != 0, expected != 0), name
        assert (found - expected).norm() <= tolerance * expected.norm(), name
        assert errors[name] == pytest.approx(error, rel=10 * tolerance), name
        count += 1
    assert count == 14
    return report


@pytest.mark.parametrize("pattern", ["2:4", "1:4", "unstructured"])
@pytest.mark.parametrize("method", ["ria", "admm", "alps"])
def test_methods_equal_their_definitions(model, ids, tmp_path, method, pattern):
    compare(model, ids, tmp_path, method, pattern, "none", WEIGHT_TOLERANCE)


@pytest.mark.parametrize("pattern", ["2:4", "1:4"])
@pytest.mark.parametrize("method", ["magnitude", "ria", "sparsegpt"])
def test_refined_masks_equal_the_definition(model, ids, tmp_path, method, pattern):
    report = compare(model, ids, tmp_path, method, pattern, "mask", WEIGHT_TOLERANCE)
    assert all(layer["swaps"] > 0 for layer in report["layers"])


@pytest.mark.parametrize("method", ["wanda", "alps"])
def test_refined_weights_equal_the_definition(model, ids, tmp_path, method):
    compare(model, ids, tmp_path, method, "2:4", "weights", SOLVER_TOLERANCE)


def test_reconstruction_equals_its_definition(model, ids, tmp_path):
    training = {"epochs": 4, "rate": 1e-3}
    report = prune(model, ids, tmp_path / "out", "--method", "wanda", "--reconstruct", "block", "--epochs", 4, "--rate",
                   1e-3)
    weights = load_file(tmp_path / "out" / "model.safetensors")
    dense = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()
    windows = torch.from_numpy(numpy.fromfile(ids, numpy.uint16).astype(numpy.int64)).view(SEQUENCES, CONTEXT)
    pruned, blocks = {}, 0
    for item in pruning_definition.prune_blocks(dense, windows, "wanda", "2:4", 2, reconstruction=training):
        if len(item) == 3:
            pruned[item[0]] = item[1]
            continue
        (before, after, epochs), trained = item
        block = report["blocks"][blocks]
        blocks += 1
        assert block["epochs"] == epochs == 4
        assert block["output_error_before"] == pytest.approx(before, rel=1e-5)
        assert block["output_error"] == pytest.approx(after, rel=1e-4)
        assert after < before
        for name, expected in trained.items():
            found = weights[f"{name}.weight"]
            assert torch.equal(found != 0, pruned[name] != 0), name
            # Adam's first steps are of the rate's size whatever the gradient: the few gradients that are as small as
            # their rounding take another way.
            assert (found - expected).norm() <= 0.02 * (expected - pruned[name]).norm(), name
    assert blocks == 2


def test_reconstruction_is_repeatable_and_seeded(model, ids, tmp_path):
    def trained(name, *options):
        prune(model, ids, tmp_path / name, "--method", "wanda", "--reconstruct", "block", "--epochs", 2, *options)
        return (tmp_path / name / "model.safetensors").read_bytes()

    once = trained("once")
    assert trained("again") == once
    assert trained("other", "--seed", 1) != once


def test_each_rung_lowers_the_first_layer_s_error(model, ids, tmp_path):
    """The first layer's inputs are the same in all runs."""
    errors = []
    for rung, options in enumerate((["--method", "wanda"], ["--method", "wanda", "--refine", "mask"],
                                    ["--method", "sparsegpt"], ["--method", "admm"], ["--method", "alps"],
                                    ["--method", "alps", "--refine", "weights"])):
        errors.append(prune(model, ids, tmp_path / str(rung), *options)["layers"][0]["relative_error"])
    assert errors == sorted(errors, reverse=True) and len(set(errors)) == len(errors)


def test_provenance_names_what_was_done(model, ids, tmp_path):
    prune(model, ids, tmp_path / "out", "--method", "admm", "--refine", "weights")
    step = json.loads((tmp_path / "out" / "config.json").read_text())["grille"]["steps"][-1]
    assert step["method"] == "admm" and step["options"]["refine"] == "weights" and step["options"]["damping"] == 0.1


@pytest.mark.parametrize("options, words", [
    (["--method", "ria"], "give --calibration"),
    (["--method", "magnitude", "--refine", "mask"], "give --calibration"),
    (["--method", "magnitude", "--reconstruct", "block"], "give --calibration"),
    (["--method", "magnitude", "--damping", "0.1"], "--damping"),
    (["--method", "magnitude", "--epochs", "3"], "--reconstruct block"),
])
def test_options_that_do_not_fit(model, tmp_path, options, words):
    failed = run_grille("prune", model, "-o", tmp_path / "out", *options, check=False)
    assert failed.status == 2 and words in failed.stderr and failed.stderr.count("\n") == 1


def test_refinement_needs_groups(model, ids, tmp_path):
    failed = run_grille("prune", model, "-o", tmp_path / "out", "--method", "wanda", "--refine", "mask", "--pattern",
                        "unstructured", "--calibration", ids, "--samples", 2, "--context", 64, check=False)
    assert failed.status == 2 and "--refine mask" in failed.stderr


def test_compare_measures_every_candidate(model, ids, tmp_path):
    """The figures are those of the commands that it stands for."""
    text = tiny_model.calibration_file(tmp_path / "text.txt")
    names = ["wanda", "ria+mask", "wanda+block"]
    table = run_grille("prune", model, "-o", tmp_path / "out", "--compare", ",".join(names), "--calibration", ids,
                       "--samples", SEQUENCES, "--context", CONTEXT, "--text", text, "--max-tokens", 1000, "--rate",
                       1e-3, "--json").json["models"]
    assert [row["name"] for row in table] == ["dense", *names]
    for row in table:
        folder = model if row["name"] == "dense" else tmp_path / "out" / row["name"]
        measured = run_grille("eval", "perplexity", folder, "--text", text, "--max-tokens", 1000, "--context", CONTEXT,
                              "--json").json
        assert row["perplexity_text"] == measured["perplexity"]
        assert row["perplexity_held_out"] > 1
    assert table[0]["layers"] == [] and all(len(row["layers"]) == 14 for row in table[1:])
    # The eighth window is held out: what remains is what the first seven give.
    seven = tmp_path / "seven.u16"
    seven.write_bytes(ids.read_bytes()[:2 * 7 * CONTEXT])
    run_grille("prune", model, "-o", tmp_path / "alone", "--method", "ria", "--refine", "mask", "--calibration", seven,
               "--samples", 7, "--context", CONTEXT)
    assert ((tmp_path / "alone" / "model.safetensors").read_bytes()
            == (tmp_path / "out" / "ria+mask" / "model.safetensors").read_bytes())


def test_compare_prints_a_table(model, ids, tmp_path):
    lines = run_grille("prune", model, "-o", tmp_path / "out", "--compare", "magnitude,wanda", "--calibration", ids,
                       "--samples", SEQUENCES, "--context", CONTEXT).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ppl", "dense", "magnitude", "wanda"]
    assert len(lines[1].split()) == 2 and all(len(line.split()) == 5 for line in lines[2:])


@pytest.mark.parametrize("options, words", [
    (["--compare", "wanda,obd"], "'obd'"),
    (["--compare", "wanda", "--method", "ria"], "--method: not with --compare"),
    (["--compare", "wanda", "--max-tokens", 5], "--max-tokens: belongs to --text"),
    (["--method", "wanda", "--text", __file__], "--text: belongs to --compare"),
])
def test_comparisons_that_do_not_fit(model, ids, tmp_path, options, words):
    failed = run_grille("prune", model, "-o", tmp_path / "out", "--calibration", ids, *options, check=False)
    assert failed.status == 2 and words in failed.stderr and failed.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()

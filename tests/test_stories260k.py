"""A tiny real model against llama2.c's own numbers (shared/data/models/stories260K)."""
import json

import pytest

import stories260k
from conftest import run_grille

FIRST_STORIES = 64


@pytest.fixture(scope="module")
def source(shared_data):
    return shared_data / "models" / "stories260K"


@pytest.fixture(scope="module")
def model(source, tmp_path_factory):
    return stories260k.make_directory(source, tmp_path_factory.mktemp("stories260k") / "model")


def test_greedy_text_is_llama2c_s(model, source):
    for case in json.loads((source / "expected" / "greedy_256.json").read_text()):
        if not case["prompt"]:
            continue  # generate wants a prompt
        wanted = case["ids_after_bos"][len(case["prompt_ids"]) - 1:]
        result = run_grille("generate", model, "--prompt", case["prompt"], "--max-tokens", len(wanted), "--json").json
        assert result["token_ids"] == wanted, case["prompt"]


def test_perplexity_of_documents(model, source, shared_data, tmp_path):
    expected = json.loads((source / "expected" / "nll_tinystories_first64.json").read_text())
    text = (shared_data / "text" / "tinystories" / "tinystories_sample_2MiB.txt").read_text(encoding="utf-8")
    stories = [story.strip() for story in text.split("<|endoftext|>")][:FIRST_STORIES]
    documents = tmp_path / "stories.jsonl"
    documents.write_text("".join(json.dumps({"text": story}) + "\n" for story in stories))
    result = run_grille("eval", "perplexity", model, "--documents", documents, "--json").json
    assert result["tokens"] == expected["total_scored"] == 22082
    # Both are fp32 with different orders of summation; the mean over 22082 tokens agrees to 6 digits.
    assert result["perplexity"] == pytest.approx(expected["ppl"], rel=2e-6)
    assert result["perplexity"] == pytest.approx(3.7402, abs=5e-5)


def test_pruning_and_fp8_run_on_odd_shapes(model, tmp_path):
    """hidden 64, intermediate 172 (not a multiple of 64), head_dim 8."""
    calibration = tmp_path / "text.txt"
    calibration.write_text("Once upon a time there was a dog. He liked to run in the park with his friends.\n" * 200)
    result = run_grille("prune", model, "-o", tmp_path / "sparse", "--calibration", calibration, "--samples", 4,
                        "--context", 128, "--quantize", "fp8-dynamic", "--quantize-embeddings", "fp8", "--json").json
    assert len(result["layers"]) == 35
    assert all(layer["sparsity"] >= 0.5 and 0 < layer["relative_error"] < 1 for layer in result["layers"])
    text = run_grille("generate", tmp_path / "sparse", "--prompt", "Once upon a time", "--max-tokens", 20, "--json").json
    assert len(text["token_ids"]) == 20

"""grille eval tasks: multiple choice as lm-eval's api/task.py and api/model.py define it, against transformers."""
import json

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

import tiny_model
from conftest import run_grille

QUESTIONS = [
    {"context": "Question: which is cold?\nAnswer:", "choices": ["ice", "a fire that burns", "steam"], "answer": 0},
    {"context": "The end has a blank ", "choices": ["é", "ééé and more", "x", "yz"], "answer": 1, "id": "kept out"},
    {"context": "", "choices": ["no context", "BOS or EOS stands for it"], "answer": 1},
    {"contexts": ["The cup did not fit, as the cup", "The cup did not fit, as the case"],
     "continuation": "was too large.", "answer": 0},
    {"context": "long " * 30, "choices": ["a", "b"], "answer": 0},
]
CONTEXT = 96  # only the last question's is longer


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tiny_model.make_directory(tmp_path_factory.mktemp("tasks") / "model")
    return (folder, AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(),
            Tokenizer.from_file(str(folder / "tokenizer.json")))


def write(file, lines):
    file.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return file


def choices_of(question):
    if "contexts" in question:
        return [(context, question["continuation"]) for context in question["contexts"]]
    return [(question["context"], choice) for choice in question["choices"]]


def loglikelihood(model, tokenizer, context, continuation, prefix):
    encode = lambda text: tokenizer.encode(text).ids  # noqa: E731
    if context == "":
        before, whole = [prefix], [prefix] + encode(continuation)
    else:
        before, whole = encode(context.rstrip()), encode(context + continuation)
    wanted = whole[len(before):]
    ids = whole[-(CONTEXT + 1):]
    with torch.no_grad():
        rows = model(torch.tensor([ids[:-1]])).logits[0].double().log_softmax(-1)[-len(wanted):]
    return sum(row[token].item() for row, token in zip(rows, wanted, strict=True))


def best(values):
    return values.index(max(values))


@pytest.mark.parametrize("delimiter", [" ", ""])
def test_log_likelihoods_and_choices_are_lm_evals(small, tmp_path, delimiter):
    folder, model, tokenizer = small
    files = [write(tmp_path / "first.jsonl", [*QUESTIONS[:3], "\n"]), write(tmp_path / "second.jsonl", QUESTIONS[3:])]
    samples = tmp_path / "samples.jsonl"
    result = run_grille("eval", "tasks", folder, "--data", *files, "--samples", samples, "--dtype", "float32",
                        "--context", CONTEXT, "--delimiter", delimiter, "--json").json
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [(line["task"], line["index"]) for line in lines] == [
        ("first", 0), ("first", 1), ("first", 2), ("second", 0), ("second", 1)]
    eos = tokenizer.token_to_id("<|end|>")
    right, right_norm = [], []
    for question, line in zip(QUESTIONS, lines, strict=True):
        choices = choices_of(question)
        values = [loglikelihood(model, tokenizer, context, delimiter + text, eos) for context, text in choices]
        # float32 on both sides: some 1e-5 a token, and no text has more than 25.
        assert line["loglikelihoods"] == pytest.approx(values, abs=2.5e-4)
        assert line["answer"] == question["answer"]
        assert line["choice"] == best(values)
        assert line["choice_norm"] == best([value / len(text) for value, (_, text) in zip(values, choices)])
        right.append(line["choice"] == question["answer"])
        right_norm.append(line["choice_norm"] == question["answer"])
    assert any(line["choice"] != line["choice_norm"] for line in lines)  # the data tells the two apart
    for name, part in (("first", slice(0, 3)), ("second", slice(3, 5))):
        task = result["tasks"][name]
        n = len(right[part])
        for key, error, values in (("acc", "stderr", right[part]), ("acc_norm", "stderr_norm", right_norm[part])):
            p = sum(values) / n
            assert task["questions"] == n and task[key] == pytest.approx(p)
            assert task[error] == pytest.approx((p * (1 - p) / (n - 1)) ** 0.5)
    assert result["tasks"]["first"]["truncated"] == 0 and result["tasks"]["second"]["truncated"] == 1
    assert result["protocol"] == "lm-eval multiple_choice" and result["model"] == str(folder)
    assert "eval tasks" in result["command"]


def test_the_table_and_a_limit(small, tmp_path):
    file = write(tmp_path / "mine.jsonl", QUESTIONS)
    run = run_grille("eval", "tasks", small[0], "--data", file, "--limit", 2, "--quiet")
    rows = [line.split() for line in run.stdout.splitlines()]
    assert [row[:3] for row in rows[1:3]] == [["mine", "acc", "2"], ["mine", "acc_norm", "2"]], run.stdout


GOOD = QUESTIONS[0]


@pytest.mark.parametrize("line, message", [
    ("{\"context\": \n", "the question is no JSON object"),
    ("[1]\n", "the question is no JSON object"),
    ({"choices": ["a", "b"], "answer": 0}, 'needs a string "context"'),
    ({"context": "c", "choices": "ab", "answer": 0}, 'needs a list of strings "choices"'),
    ({"context": "c", "choices": ["a", 2], "answer": 0}, 'needs a list of strings "choices"'),
    ({"context": "c", "choices": ["a"], "answer": 0}, "has fewer than two choices"),
    ({"context": "c", "choices": ["a", ""], "answer": 0}, "has a choice without text"),
    ({"context": "c", "choices": ["a", "b"], "answer": 2}, 'needs an "answer"'),
    ({"context": "c", "choices": ["a", "b"], "answer": -1}, 'needs an "answer"'),
    ({"context": "c", "choices": ["a", "b"], "answer": "A"}, 'needs an "answer"'),
    ({"contexts": ["a", "b"], "answer": 0}, 'needs a string "continuation"'),
])
def test_a_bad_line_is_named(small, tmp_path, line, message):
    file = write(tmp_path / "bad.jsonl", [GOOD, "\n", line])
    samples = tmp_path / "samples.jsonl"
    run = run_grille("eval", "tasks", small[0], "--data", file, "--samples", samples, check=False)
    assert run.status == 2 and f"{file}:3: the question" in run.stderr and message in run.stderr, run.stderr
    assert not samples.exists()


def test_bad_files_and_options(small, tmp_path):
    good, empty = write(tmp_path / "good.jsonl", [GOOD]), write(tmp_path / "empty.jsonl", ["\n"])
    (tmp_path / "more").mkdir()
    twin = write(tmp_path / "more" / "good.jsonl", [GOOD])
    for options, message in [((empty,), "it has no question"), ((good, twin), "two files are named good"),
                             ((good, "--context", 257), "--context 257: expected 1 to 256"),
                             ((good, "--context", 3), "longer than the context of 3")]:
        run = run_grille("eval", "tasks", small[0], "--data", *options, check=False)
        assert run.status == 2 and message in run.stderr, (options, run.stderr)

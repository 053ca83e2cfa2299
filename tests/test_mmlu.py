"""grille eval mmlu: lm-eval's log-likelihoods of the real model, and each protocol's definition on a small one."""
import csv
import functools
import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

import tiny_model
from conftest import run_grille

LETTERS = "ABCD"


def score(model, data, samples, *options):
    """The --json result and the samples' lines."""
    result = run_grille("eval", "mmlu", model, "--data", data, "--samples", samples, "--dtype", "float32", "--json",
                        *options).json
    return result, [json.loads(line) for line in samples.read_text().splitlines()]


# Log-likelihoods of two float32 programs, whose logits of size 20 each end some thousand roundings: the harness on a
# CPU is within 5e-5 of these numbers from a GPU (README of the data), and so are we of either.
REFERENCE_TOLERANCE = 1e-4


def test_the_real_model_gives_the_reference_log_likelihoods(gguf, shared_data, tmp_path):
    reference = json.loads((shared_data / "models" / "smollm2-135m" / "mmlu_5shot.json").read_text())["subjects"]
    result, lines = score(gguf, shared_data / "mmlu", tmp_path / "samples.jsonl", "--subjects", ",".join(reference))
    assert result["protocol"] == "lm-eval" and result["shots"] == 5 and result["single_tokens"]
    by_subject = {name: [line for line in lines if line["subject"] == name] for name in reference}
    for name, expected in reference.items():
        subject = result["subjects"][name]
        assert subject["questions"] == expected["n"] == len(by_subject[name])
        assert subject["acc"] == pytest.approx(expected["acc"], abs=1e-6)
        assert subject["stderr"] == pytest.approx(expected["acc_stderr"], abs=1e-6)
        for i, (line, logprobs) in enumerate(zip(by_subject[name], expected["loglikelihoods"], strict=True)):
            assert line["index"] == i and line["answer"] == expected["answers"][i]
            assert line["loglikelihoods"] == pytest.approx(logprobs, abs=REFERENCE_TOLERANCE), (name, i)
            best, second = sorted(logprobs, reverse=True)[:2]
            if best - second > 2 * REFERENCE_TOLERANCE:
                assert line["choice"] == expected["chosen"][i], (name, i)
    counted = sum(line["choice"] == line["answer"] for line in lines)
    assert result["acc"] == pytest.approx(counted / len(lines), abs=1e-12)
    assert result["acc_mean_of_subjects"] == pytest.approx(
        sum(subject["acc"] for subject in reference.values()) / 3, abs=1e-6)


# A small model and data, and what the three programs do with them, written down once more from their sources.

def letter_tokenizer() -> Tokenizer:
    """Bytes, and " A" to " D" as one token each."""
    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {"Ġ" + letter: 257 + i for i, letter in enumerate(LETTERS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("Ġ", letter) for letter in LETTERS]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


CONFIG = tiny_model.CONFIG | {"vocab_size": 262, "max_position_embeddings": 1024}
TOKENIZERS = {"letters": letter_tokenizer, "bytes": tiny_model.byte_tokenizer}


@pytest.fixture(scope="module", params=TOKENIZERS)
def small(request, tmp_path_factory):
    """Folder, model of transformers and tokenizer; with "bytes" a choice is two tokens."""
    tensors = tiny_model.random_tensors(CONFIG)
    # Letters are likely, so that greedy choices and the 100 most probable tokens hold some of them.
    tensors["model.embed_tokens.weight"][257:261] *= 1.2
    tensors["model.embed_tokens.weight"][33:37] *= 1.2
    folder = tiny_model.make_directory(tmp_path_factory.mktemp("mmlu") / "model", CONFIG, tensors)
    tokenizer = TOKENIZERS[request.param]()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder, AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), tokenizer


SUBJECTS = {"anatomy": 9, "virology": 6, "college_physics": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mmlu_data")
    for part in ("dev", "test"):
        (folder / part).mkdir()
    for name, count in SUBJECTS.items():
        for part, rows in (("dev", 5), ("test", count)):
            with open(folder / part / f"{name}_{part}.csv", "w", newline="") as file:
                writer = csv.writer(file)
                for i in range(rows):
                    question = [f" What is {i}, of {name}?", f'Say "{part}"\nor not? '][i % 2] + "x" * (29 * i % 50)
                    writer.writerow([question, f"{i}", "None", f"c, {name}", "d" * (i % 3 + 1), LETTERS[(i * 7 + rows) % 4]])
    return folder


def rows_of(data, part, name):
    with open(data / part / f"{name}_{part}.csv", newline="") as file:
        return list(csv.reader(file))


def format_question(row, protocol):
    question = row[0].strip() if protocol == "lm-eval" else row[0]
    cells = [cell if protocol == "lm-eval" or cell != "None" else "nan" for cell in row[1:5]]
    return question + "".join(f"\n{letter}. {cell}" for letter, cell in zip(LETTERS, cells)) + "\nAnswer:"


def shots_of(data, name, protocol, count):
    two = " " if protocol == "hendrycks" else ""
    header = f"The following are multiple choice questions (with answers) about {two}{name.replace('_', ' ')}.\n\n"
    return header + "".join(f"{format_question(row, protocol)} {row[5]}\n\n" for row in rows_of(data, "dev", name)[:count])


@functools.lru_cache(maxsize=8)  # four single-token choices follow one prompt
def logprobs_after(model, ids):
    with torch.no_grad():
        return model(torch.tensor([list(ids)])).logits[0].double().log_softmax(-1)


def expected_answer(model, tokenizer, protocol, shots, question, context):
    """Four log-likelihoods and the choice."""
    encode = lambda text: tokenizer.encode(text).ids  # noqa: E731
    count = len(shots) - 1
    if protocol == "sglang":
        while count > 0 and len(encode(shots[count])) > 1536:
            count -= 1
    if protocol == "hendrycks":
        while count > 0 and len(encode(shots[count] + question)) > context:
            count -= 1
    prompt = shots[count] + question
    values = []
    for letter in LETTERS:
        whole = encode(prompt + " " + letter)
        continuation = whole[len(encode(prompt)):]
        ids = whole[-(context + 1):]
        logprobs = logprobs_after(model, tuple(ids[:-1]))[-len(continuation):]
        value = sum(row[token].item() for row, token in zip(logprobs, continuation, strict=True))
        single = len(continuation) == 1
        if protocol == "hendrycks" and single and (logprobs[0] > logprobs[0][continuation[0]]).sum() >= 100:
            value = -100.0
        values.append(value)
    if protocol != "sglang":
        return values, LETTERS[values.index(max(values))]
    said = tokenizer.decode([int(logprobs_after(model, tuple(encode(prompt)[-context:]))[-1].argmax())]).strip()[:1]
    return values, said if said and said in LETTERS else None


@pytest.mark.parametrize("protocol, shots, context", [
    ("lm-eval", 5, 1024), ("lm-eval", 0, 1024), ("lm-eval", 5, 200), ("hendrycks", 5, 1024), ("hendrycks", 5, 400),
    ("hendrycks", 2, 60), ("sglang", 5, 1024), ("sglang", 3, 300)])
def test_protocols_are_as_their_programs(small, data, tmp_path, protocol, shots, context):
    folder, model, tokenizer = small
    result, lines = score(folder, data, tmp_path / "samples.jsonl", "--subjects", ",".join(SUBJECTS), "--protocol",
                          protocol, "--shots", shots, "--context", context)
    assert result["protocol"] == protocol
    expected = []
    for name in SUBJECTS:
        texts = [shots_of(data, name, protocol, k) for k in range(shots + 1)]
        for i, row in enumerate(rows_of(data, "test", name)):
            expected.append((name, i, row[5], *expected_answer(model, tokenizer, protocol, texts,
                                                               format_question(row, protocol), context)))
    assert [(line["subject"], line["index"], line["answer"]) for line in lines] == [row[:3] for row in expected]
    for line, (name, i, _, values, choice) in zip(lines, expected, strict=True):
        # float32 on both sides: logits of size 5 differ by some 1e-5.
        assert line["loglikelihoods"] == pytest.approx(values, abs=1e-4), (name, i)
        assert line["choice"] == choice, (name, i)  # no near-ties in this data
    longest = max(len(tokenizer.encode(texts[-1]).ids) for texts in [[shots_of(data, n, protocol, shots)] for n in SUBJECTS])
    assert (result["truncated"] > 0) == (context < longest and not (protocol == "hendrycks" and context == 400))
    assert (result["fewer_shots"] > 0) == (protocol == "hendrycks" and context < 1024)


def test_means_count_questions_or_subjects(small, data, tmp_path):
    folder, _, _ = small
    result, lines = score(folder, data, tmp_path / "samples.jsonl", "--subjects", ",".join(SUBJECTS), "--limit", 6)
    counts = {name: min(count, 6) for name, count in SUBJECTS.items()}
    right = {name: sum(line["choice"] == line["answer"] for line in lines if line["subject"] == name) for name in counts}
    assert len(lines) == result["questions"] == sum(counts.values())
    for name, subject in result["subjects"].items():
        assert subject["questions"] == counts[name] and subject["acc"] == pytest.approx(right[name] / counts[name])
    assert result["subjects"]["college_physics"]["stderr"] is None  # of one question
    assert result["acc"] == pytest.approx(sum(right.values()) / sum(counts.values()))
    assert result["acc_mean_of_subjects"] == pytest.approx(sum(right[n] / counts[n] for n in counts) / len(counts))
    assert set(result["groups"]) == {"stem", "other"}
    assert result["groups"]["stem"]["acc"] == pytest.approx((right["anatomy"] + right["college_physics"]) / 7)
    assert result["groups"]["other"]["stderr"] == pytest.approx(result["subjects"]["virology"]["stderr"])
    assert "eval mmlu" in result["command"] and result["model"] == str(folder)


def test_the_table_and_no_half_written_samples(small, data, tmp_path):
    folder, _, _ = small
    run = run_grille("eval", "mmlu", folder, "--data", data, "--subjects", "anatomy,virology", "--quiet")
    for text in ("anatomy", "group stem", "group other", "mean of subjects", "mean of questions", "5 shots, protocol lm-eval"):
        assert text in run.stdout, run.stdout
    bad = run_grille("eval", "mmlu", folder, "--data", data, "--subjects", "anatomy", "--shots", 6, "--samples",
                     tmp_path / "samples.jsonl", check=False)
    assert bad.status == 2 and "--shots 6: anatomy has 5 dev questions" in bad.stderr
    assert list(tmp_path.iterdir()) == []

"""`grille serve` on the real model, through the official client, against transformers."""
import concurrent.futures
import json
import time
import urllib.request

import openai
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from conftest import run_grille
from server_process import serving

KEY = "a-key"
PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def dense(gguf, tmp_path_factory):
    out = tmp_path_factory.mktemp("served") / "smol"
    run_grille("convert", gguf, "-o", out)
    return out


@pytest.fixture(scope="module")
def server(dense, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"# who\n{KEY}\nanother\n")
    with serving(dense, "--dtype", "float32", "--max-model-len", 512, "--api-key-file", keys,
                 "--served-model-name", "smol", "--served-model-name", "second") as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=120)


@pytest.fixture(scope="module")
def reference(dense):
    return AutoModelForCausalLM.from_pretrained(dense, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(dense)


def greedy(reference, ids, count):
    model, _ = reference
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False)
    return out[0, len(ids):].tolist()


def logprobs_of(reference, ids):
    """[length, vocabulary] of float64; row i predicts position i + 1."""
    model, _ = reference
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1)


def complete(client, **fields):
    return client.completions.create(**{"model": "smol", "prompt": PROMPT, "temperature": 0, "max_tokens": 12} | fields)


def chat(client, **fields):
    return client.chat.completions.create(**{
        "model": "smol", "messages": [{"role": "user", "content": "Name a colour."}], "temperature": 0,
        "max_completion_tokens": 12} | fields)


def test_models_version_and_health(server, client):
    assert [model.id for model in client.models.list()] == ["smol", "second"]
    assert client.models.retrieve("second").max_model_len == 512
    with urllib.request.urlopen(server.url + "/health") as response:
        assert response.status == 200
    with urllib.request.urlopen(server.url + "/version") as response:
        assert json.load(response)["version"] == run_grille("--version").stdout.strip()


def test_a_greedy_completion_is_transformers(client, reference):
    _, tokenizer = reference
    ids = tokenizer(PROMPT).input_ids
    expected = tokenizer.decode(greedy(reference, ids, 12))
    for prompt in (PROMPT, ids):
        answer = complete(client, prompt=prompt)
        assert answer.choices[0].text == expected
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.prompt_tokens == len(ids) and answer.usage.completion_tokens == 12


def test_a_greedy_chat_is_transformers(client, reference):
    _, tokenizer = reference
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    expected = tokenizer.decode(greedy(reference, ids, 12), skip_special_tokens=True)
    answer = chat(client, messages=messages)
    assert answer.choices[0].message.content == expected
    assert answer.usage.prompt_tokens == len(ids)


def test_streams_say_the_same_as_whole_answers(client):
    whole = complete(client, n=2)
    chunks = list(complete(client, n=2, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    for index in (0, 1):
        mine = [chunk.choices[0] for chunk in chunks[:-1] if chunk.choices[0].index == index]
        assert "".join(choice.text for choice in mine) == whole.choices[index].text
        assert [choice.finish_reason for choice in mine[:-1]] == [None] * (len(mine) - 1)
        assert mine[-1].finish_reason == whole.choices[index].finish_reason

    said = chat(client)
    deltas = [chunk.choices[0].delta for chunk in chat(client, stream=True)]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == said.choices[0].message.content


def test_prompts_come_in_batches(client):
    answer = complete(client, prompt=[PROMPT, "One, two, three,"], n=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.choices[0].text == answer.choices[1].text == complete(client).choices[0].text
    assert answer.choices[2].text == complete(client, prompt="One, two, three,").choices[0].text


def test_stops(client, reference):
    _, tokenizer = reference
    text = complete(client).choices[0].text
    word = text.split()[1]
    stopped = complete(client, stop=[word]).choices[0]
    assert stopped.text == text[:text.index(word)]
    assert stopped.finish_reason == "stop" and stopped.stop_reason == word
    included = complete(client, stop=[word], extra_body={"include_stop_str_in_output": True}).choices[0]
    assert included.text == text[:text.index(word)] + word
    third = greedy(reference, tokenizer(PROMPT).input_ids, 3)[2]
    by_token = complete(client, extra_body={"stop_token_ids": [third]})
    assert by_token.choices[0].stop_reason == third and by_token.usage.completion_tokens == 3


def test_the_end_of_a_turn_stops_a_chat_unless_it_is_ignored(client):
    question = [{"role": "user", "content": "What is 1+1? Answer with one number."}]
    ended = chat(client, messages=question, max_completion_tokens=60)
    assert ended.choices[0].finish_reason == "stop" and ended.choices[0].stop_reason is None
    assert "<|im_end|>" not in ended.choices[0].message.content
    more = chat(client, messages=question, max_completion_tokens=60, extra_body={"ignore_eos": True})
    assert more.choices[0].finish_reason == "length" and more.usage.completion_tokens == 60


def test_seeds_repeat_and_choices_differ(client):
    fields = dict(temperature=1.0, n=3, seed=7, max_tokens=16)
    first = [choice.text for choice in complete(client, **fields).choices]
    assert first == [choice.text for choice in complete(client, **fields).choices]
    assert len(set(first)) == 3
    assert first != [choice.text for choice in complete(client, **fields | {"seed": 8}).choices]


def test_logit_bias_and_penalties_change_what_comes(client, reference):
    _, tokenizer = reference
    wanted = tokenizer(" Berlin").input_ids
    assert complete(client, max_tokens=2, logit_bias={str(wanted[0]): 100}).choices[0].text.startswith(
        tokenizer.decode(wanted[:1]))
    text = complete(client, prompt="a a a a a a a a", max_tokens=8).choices[0].text
    assert complete(client, prompt="a a a a a a a a", max_tokens=8, frequency_penalty=2.0,
                    presence_penalty=2.0).choices[0].text != text


# Logits of both agree to about 2e-5 in fp32; a log-probability differs by at most twice the largest difference.
TOLERANCE = 1e-4


def test_chat_logprobs_are_transformers(client, reference):
    _, tokenizer = reference
    messages = [{"role": "user", "content": "Name a colour."}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    content = chat(client, messages=messages, logprobs=True, top_logprobs=3, max_completion_tokens=4).choices[0].logprobs.content
    out = greedy(reference, ids, 4)
    expected = logprobs_of(reference, ids + out)
    for i, entry in enumerate(content):
        row = expected[len(ids) - 1 + i]
        top = row.topk(3)
        assert entry.token == tokenizer.decode([out[i]])
        assert bytes(entry.bytes).decode() == entry.token
        assert entry.logprob == pytest.approx(row[out[i]].item(), abs=TOLERANCE)
        assert [t.token for t in entry.top_logprobs] == [tokenizer.decode([k]) for k in top.indices.tolist()]
        assert [t.logprob for t in entry.top_logprobs] == pytest.approx(top.values.tolist(), abs=TOLERANCE)


def test_loglikelihoods_as_lm_eval_reads_them(server, reference):
    """The body that lm-eval's local-completions sends, and its parser's arithmetic."""
    _, tokenizer = reference
    pairs = [("The capital of France is", " Paris."), ("One plus one is", " seven, I think."), ("x", "\nA: \"é\"")]
    contexts = [tokenizer(context).input_ids for context, _ in pairs]
    prompts = [ids + tokenizer(text).input_ids for ids, (_, text) in zip(contexts, pairs)]
    status, body = server.post("/v1/completions", {
        "model": "smol", "prompt": prompts, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234,
        "echo": True}, {"Authorization": f"Bearer {KEY}"})
    assert status == 200, body
    choices = sorted(json.loads(body)["choices"], key=lambda choice: choice["index"])
    for ids, context, choice in zip(prompts, contexts, choices):
        logprobs = choice["logprobs"]
        assert len(logprobs["token_logprobs"]) == len(ids) + 1
        assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
        expected = logprobs_of(reference, ids)
        wanted = [expected[i - 1, ids[i]].item() for i in range(1, len(ids))]
        assert logprobs["token_logprobs"][1:-1] == pytest.approx(wanted, abs=TOLERANCE)
        is_greedy = all(token == max(top.values()) for token, top in
                        zip(logprobs["token_logprobs"][len(context):-1], logprobs["top_logprobs"][len(context):-1]))
        best = expected[len(context) - 1:-1].argmax(-1).tolist()
        assert is_greedy == (best == ids[len(context):])
        assert logprobs["tokens"][:-1] == [tokenizer.decode([token]) for token in ids]
        assert choice["text"].startswith(tokenizer.decode(ids))


def test_echo_alone(client):
    answer = complete(client, echo=True, max_tokens=0, logprobs=0)
    assert answer.choices[0].text == PROMPT
    assert answer.usage.completion_tokens == 0
    assert len(answer.choices[0].logprobs.tokens) == answer.usage.prompt_tokens


def test_tokenize_and_detokenize(server, reference):
    _, tokenizer = reference
    headers = {"Authorization": f"Bearer {KEY}"}
    status, body = server.post("/tokenize", {"prompt": "Où est-il ?"}, headers)
    assert status == 200
    ids = json.loads(body)["tokens"]
    assert ids == tokenizer("Où est-il ?").input_ids
    assert json.loads(server.post("/detokenize", {"tokens": ids}, headers)[1])["prompt"] == "Où est-il ?"
    messages = [{"role": "user", "content": "hi"}]
    status, body = server.post("/tokenize", {"messages": messages}, headers)
    assert json.loads(body)["tokens"] == tokenizer.apply_chat_template(messages, add_generation_prompt=True)


def test_errors_are_the_clients_own_kinds(server, client):
    with pytest.raises(openai.BadRequestError, match="maximum context length is 512"):
        complete(client, max_tokens=600)
    with pytest.raises(openai.BadRequestError, match="not supported"):
        chat(client, tools=[{"type": "function", "function": {"name": "f"}}])
    with pytest.raises(openai.BadRequestError, match="response_format"):
        chat(client, response_format={"type": "json_object"})
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        complete(client, model="gpt-4")
    with pytest.raises(openai.AuthenticationError):
        complete(openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0))
    assert complete(client, extra_body={"surprise": 1}).choices[0].text
    assert any("unknown fields ignored: surprise" in line for line in server.log)


def test_a_client_that_leaves_frees_its_request(server, client):
    stream = complete(client, max_tokens=400, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    assert server.live() >= 1
    stream.close()
    assert server.wait_until_idle(5)

    with server.connect() as connection:
        body = json.dumps({"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True}).encode()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Authorization: Bearer " + KEY.encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        deadline = time.monotonic() + 10
        while server.live() == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert server.wait_until_idle(5)
    assert complete(client).choices[0].text


def test_requests_at_once_get_their_own_answers(server, reference):
    """Eight clients at once hear what each would hear alone."""
    prompts = ["The capital of France is", "One, two, three,", "Once upon a time", "def add(a, b):",
               "Water boils at", "The sun", "In 1969", "My name is"]
    headers = {"Authorization": f"Bearer {KEY}"}

    def ask(prompt):
        status, body = server.post("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 8}, headers)
        assert status == 200, body
        return json.loads(body)["choices"][0]["text"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, prompts))
    _, tokenizer = reference
    for prompt, text in zip(prompts, together):
        assert text == tokenizer.decode(greedy(reference, tokenizer(prompt).input_ids, 8)), prompt


def test_metrics_count_what_was_done(server, client):
    before = server.metrics()
    answer = complete(client)
    after = server.metrics()
    grown = {name: after[name] - before[name] for name in before}
    assert grown["vllm:generation_tokens_total"] == answer.usage.completion_tokens
    assert grown["vllm:prompt_tokens_total"] == answer.usage.prompt_tokens
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
        assert grown[f"vllm:{name}_count"] == 1 and grown[f"vllm:{name}_sum"] > 0
    assert grown["vllm:inter_token_latency_seconds_count"] == answer.usage.completion_tokens - 1
    assert grown["vllm:request_success_total"] == 1


def test_the_log_holds_no_prompt(server, client):
    secret = "xylophone-4711"
    complete(client, prompt=secret, extra_headers={"X-Request-Id": "seen-in-the-log"})
    chat(client, messages=[{"role": "user", "content": secret}])
    time.sleep(0.2)
    assert any("seen-in-the-log" in line for line in server.log)
    assert not any(secret in line for line in server.log)


def test_the_model_card_is_what_inspect_says(server, dense):
    request = urllib.request.Request(server.url + "/model_card", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request) as response:
        card = json.load(response)
    inspected = run_grille("inspect", dense, "--json").json
    assert card == {name: inspected[name] for name in card} and len(card["layers"]) > 200

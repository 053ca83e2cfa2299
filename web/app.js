import { EventSplitter, cardFacts, liveFigures, parseMetrics } from "/metrics.js";

const byId = (id) => document.getElementById(id);
const conversation = [];
let running = null; // the AbortController of the answer that is being written

function headers() {
  const key = byId("api-key").value.trim();
  return key === "" ? {} : { Authorization: `Bearer ${key}` };
}

function say(text) {
  byId("status").textContent = text;
}

function element(name, text, className = "") {
  const result = document.createElement(name);
  result.textContent = text;
  if (className !== "") result.className = className;
  return result;
}

function addMessage(role, text) {
  const item = element("li", "", role);
  const body = element("p", text);
  item.append(element("strong", role === "user" ? "You" : "Model"), body);
  byId("messages").append(item);
  item.scrollIntoView({ block: "end" });
  return body;
}

async function errorText(response) {
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) return "The server wants an API key: see Settings.";
  return body.error?.message ?? `status ${response.status}`;
}

// Writes an answer into `body` as it comes; returns its text.
async function streamAnswer(messages, body, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    signal,
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify({
      messages,
      stream: true,
      max_tokens: Number(byId("max-tokens").value),
      temperature: Number(byId("temperature").value),
      top_p: Number(byId("top-p").value),
    }),
  });
  if (!response.ok) throw new Error(await errorText(response));
  const splitter = new EventSplitter();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return body.textContent;
    for (const data of splitter.push(value)) {
      if (data === "[DONE]") continue;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      body.textContent += event.choices[0]?.delta?.content ?? "";
    }
    body.scrollIntoView({ block: "end" });
  }
}

function setRunning(controller) {
  running = controller;
  byId("send").disabled = controller !== null;
  byId("stop").disabled = controller === null;
  byId("messages").setAttribute("aria-busy", String(controller !== null));
}

async function send() {
  const text = byId("message").value.trim();
  if (text === "" || running !== null) return;
  byId("message").value = "";
  conversation.push({ role: "user", content: text });
  addMessage("user", text);
  const body = addMessage("assistant", "");
  setRunning(new AbortController());
  say("The model is writing …");
  const system = byId("system").value.trim();
  const messages = system === "" ? conversation : [{ role: "system", content: system }, ...conversation];
  try {
    await streamAnswer(messages, body, running.signal);
    say("Done.");
  } catch (error) {
    say(error.name === "AbortError" ? "Stopped." : `Failed: ${error.message}`);
  }
  if (body.textContent === "") {
    body.parentElement.remove();
  } else {
    conversation.push({ role: "assistant", content: body.textContent });
  }
  setRunning(null);
  byId("message").focus();
}

function stop() {
  running?.abort();
}

function clearChat() {
  stop();
  conversation.length = 0;
  byId("messages").replaceChildren();
  say("");
  byId("message").focus();
}

function shown(value, unit = "", digits = 1) {
  return value === null ? "–" : `${value.toFixed(digits)}${unit}`;
}

let lastReading = null;

async function showMetrics() {
  try {
    const response = await fetch("/metrics");
    const now = { values: parseMetrics(await response.text()), time: performance.now() };
    const seconds = lastReading === null ? 0 : (now.time - lastReading.time) / 1000;
    const figures = liveFigures(lastReading?.values ?? null, now.values, seconds);
    lastReading = now;
    byId("tokens-per-second").textContent = shown(figures.tokensPerSecond);
    byId("prompt-per-second").textContent = shown(figures.promptPerSecond);
    byId("running").textContent = figures.running;
    byId("waiting").textContent = figures.waiting;
    byId("kv-meter").value = figures.kvUsage;
    byId("kv").textContent = shown(100 * figures.kvUsage, " %");
    byId("first-token").textContent = shown(figures.firstTokenSeconds, " s", 3);
  } catch {
    byId("running").textContent = "the server does not answer";
  }
}

function addFact(name, value) {
  const row = document.createElement("div");
  row.append(element("dt", name), element("dd", value));
  byId("card-facts").append(row);
}

async function showCard() {
  const [models, cardResponse] = await Promise.all(
    ["/v1/models", "/model_card"].map((path) => fetch(path, { headers: headers() })));
  if (!cardResponse.ok || !models.ok) throw new Error(await errorText(cardResponse.ok ? models : cardResponse));
  const card = await cardResponse.json();
  const model = (await models.json()).data[0];
  byId("model-name").textContent = model.id;
  document.title = `${model.id} – grille`;
  byId("card-facts").replaceChildren();
  byId("layers").replaceChildren();
  const facts = cardFacts(card);
  addFact("Architecture", facts.architecture ?? "–");
  addFact("Parameters", (facts.parameters ?? 0).toLocaleString("en"));
  addFact("Files", `${((facts.fileBytes ?? 0) / 1e6).toFixed(1)} MB`);
  addFact("Zeros in weights", `${(100 * facts.sparsity).toFixed(1)} %`);
  addFact("Formats", facts.formats.join(", "));
  addFact("Context", `${model.max_model_len.toLocaleString("en")} tokens`);
  for (const layer of card.layers ?? []) {
    const row = document.createElement("tr");
    const name = element("th", layer.name);
    name.scope = "row";
    row.append(name, element("td", layer.shape.join("×")), element("td", layer.format), element("td", layer.dtype),
      element("td", `${(100 * layer.sparsity).toFixed(1)} %`), element("td", (layer.stored_bytes / 1e6).toFixed(2)));
    byId("layers").append(row);
  }
}

const refreshCard = () => showCard().catch((error) => {
  byId("model-name").textContent = error.message;
});

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
byId("stop").addEventListener("click", stop);
byId("clear").addEventListener("click", clearChat);
byId("api-key").value = sessionStorage.getItem("api-key") ?? "";
byId("api-key").addEventListener("change", () => {
  sessionStorage.setItem("api-key", byId("api-key").value);
  refreshCard();
});

refreshCard();
showMetrics();
setInterval(showMetrics, 1000);
byId("message").focus();

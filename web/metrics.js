// Pure functions: Prometheus text and server-sent events to values. No DOM.

// "name{labels} value" lines to {name: sum of its values over labels}.
export function parseMetrics(text) {
  const values = {};
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const end = line.lastIndexOf(" ");
    const name = line.slice(0, end).split("{", 1)[0];
    const value = Number(line.slice(end + 1));
    if (Number.isFinite(value)) values[name] = (values[name] ?? 0) + value;
  }
  return values;
}

// What the page shows, from two readings `seconds` apart; the first may be null.
export function liveFigures(before, now, seconds) {
  const rate = (name) => (before === null || seconds <= 0 ? null : Math.max(0, now[name] - before[name]) / seconds);
  const firstTokens = now["vllm:time_to_first_token_seconds_count"] ?? 0;
  return {
    tokensPerSecond: rate("vllm:generation_tokens_total"),
    promptPerSecond: rate("vllm:prompt_tokens_total"),
    running: now["vllm:num_requests_running"] ?? 0,
    waiting: now["vllm:num_requests_waiting"] ?? 0,
    kvUsage: now["vllm:kv_cache_usage_perc"] ?? 0,
    firstTokenSeconds: firstTokens > 0 ? now["vllm:time_to_first_token_seconds_sum"] / firstTokens : null,
  };
}

// Splits a stream into its events' data, whatever pieces it arrives in.
export class EventSplitter {
  #rest = "";

  push(text) {
    const parts = (this.#rest + text).split("\n\n");
    this.#rest = parts.pop();
    return parts.filter((part) => part.startsWith("data: ")).map((part) => part.slice("data: ".length));
  }
}

// Figures of the model's card.
export function cardFacts(card) {
  const layers = card.layers ?? [];
  const weights = layers.reduce((sum, layer) => sum + layer.shape[0] * layer.shape[1], 0);
  const zeros = layers.reduce((sum, layer) => sum + layer.sparsity * layer.shape[0] * layer.shape[1], 0);
  return {
    architecture: card.architecture,
    parameters: card.parameters,
    fileBytes: card.file_bytes,
    sparsity: weights > 0 ? zeros / weights : 0,
    formats: [...new Set(layers.map((layer) => layer.format))],
  };
}

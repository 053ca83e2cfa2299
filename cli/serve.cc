// grille serve: the OpenAI-compatible server.
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>

#include <spdlog/spdlog.h>

#include "cli/inspection_json.h"
#include "cli/model_options.h"
#include "cli/termination.h"
#include "grille/base/error.h"
#include "grille/compress/inspection.h"
#include "grille/engine/engine_loop.h"
#include "grille/engine/local_engine.h"
#include "grille/server/http_server.h"

namespace grille::cli {
namespace {

struct ServeOptions {
  ModelOptions model;
  server::ServerOptions server;
  engine::LocalEngineOptions engine;
  engine::EngineLoopOptions loop;
  std::vector<std::string> names;
  std::string api_key_file;
  double shutdown_timeout = 30;  // seconds
  bool no_model_card = false;
};

// One key a line; blank lines and those that begin with # say nothing.
void read_api_keys(const std::string& file, std::vector<std::string>& keys) {
  std::ifstream in(file);
  check(in.is_open(), ErrorCode::kNotFound, "--api-key-file {}: cannot be read", file);
  const std::size_t before = keys.size();
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') keys.push_back(line);
  }
  check(keys.size() > before, ErrorCode::kInvalidArgument, "--api-key-file {}: it holds no key", file);
}

// The model's name without the folders that lead to it.
std::string default_name(const ServeOptions& options, const models::ModelFiles& files) {
  const bool hub_id =
      options.model.model.find('/') != std::string::npos && !std::filesystem::exists(options.model.model);
  if (hub_id) return options.model.model;
  const std::filesystem::path path = std::filesystem::absolute(files.path).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).stem().string();
}

server::ServedModel served_model(const ServeOptions& options, const LoadedModel& loaded, Progress& progress) {
  const text::Tokenizer tokenizer = models::load_tokenizer(loaded.files);
  server::ServedModel model{
      .names = options.names, .tokenizer = tokenizer, .chat_template = {}, .defaults = {}};
  if (model.names.empty()) model.names.push_back(default_name(options, loaded.files));
  if (!tokenizer.chat_template().empty()) model.chat_template = text::ChatTemplate::of(tokenizer);
  model.vocab_size = loaded.decoder.config().vocab_size;
  model.defaults = server::sampling_defaults(models::side_files(loaded.files)["generation_config.json"]);
  if (!options.no_model_card) model.card = to_json(compress::inspect(loaded.files, progress)).dump();
  model.created = static_cast<std::int64_t>(std::time(nullptr));
  return model;
}

nlohmann::json run(const ServeOptions& given, const CommandContext& context) {
  ServeOptions options = given;
  if (!options.api_key_file.empty()) read_api_keys(options.api_key_file, options.server.api_keys);
  const LoadedModel loaded = load_model(options.model, context);
  server::ServedModel model = served_model(options, loaded, context.progress);
  context.progress.finish();

  engine::LocalEngine engine(loaded.decoder, options.engine);
  model.max_positions = engine.max_positions();
  engine::EngineLoop loop(engine, options.loop);
  const TerminationSignals signals;
  server::HttpServer http(model, loop, options.server);
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  if (options.server.api_keys.empty() && options.server.host != "127.0.0.1" &&
      options.server.host != "localhost" && options.server.host != "::1") {
    spdlog::warn("--host {} without --api-key: everybody who reaches this machine may use the model",
                 options.server.host);
  }
  // The one line that scripts wait for.
  if (!context.options.json)
    std::cout << "serving " << model.names.front() << " at " << http.url() << std::endl;
  spdlog::info("{} is ready at {} (API: {}/v1, web page: {}/)", model.names.front(), http.url(), http.url(),
               http.url());

  const int signal = signals.wait();
  spdlog::info("signal {}: no more requests; those that run have {:.0f} s to end", signal,
               options.shutdown_timeout);
  const auto wait = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(options.shutdown_timeout));
  http.stop_accepting();
  const bool all_ended = loop.drain(std::chrono::steady_clock::now() + wait);
  http.finish(std::chrono::steady_clock::now() + std::chrono::seconds(2));
  spdlog::info("stopped; {}", all_ended ? "every request had ended" : "requests were cut off");
  spdlog::set_pattern("%v");
  check(signal != SIGINT, ErrorCode::kCancelled, "interrupted");
  return {{"url", http.url()}, {"drained", all_ended}};
}

void add_network_options(CLI::App& command, ServeOptions& options) {
  server::ServerOptions& server = options.server;
  command.add_option("--host", server.host, "Address to listen on; 0.0.0.0: all")->capture_default_str();
  command.add_option("--port", server.port, "Port; 0: a free one, which is printed")->capture_default_str();
  command
      .add_option(
          "--api-key", server.api_keys,
          "A key that clients must send (may be given several times); other users of this machine can see "
          "it, unlike those of --api-key-file")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--api-key-file", options.api_key_file, "A file with one key a line");
  command
      .add_option("--allowed-origins", server.allowed_origins,
                  "A web origin whose pages may call the API (may be given several times); *: any")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--max-connections", server.max_connections, "Most connections at once")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--max-body-bytes", server.max_body_bytes, "Largest request")
      ->check(CLI::Range(1024, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--shutdown-timeout", options.shutdown_timeout,
                  "Seconds that requests have to end after SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
}

void add_engine_options(CLI::App& command, ServeOptions& options) {
  command.add_flag("--no-model-card", options.no_model_card,
                   "Do not read all weights for the web page's table of layers before serving");
  command
      .add_option("--served-model-name", options.names,
                  "A name that requests may use (may be given several times); default: the folder's name")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option("--max-model-len", options.engine.max_positions,
                  "Longest sequence, prompt and output together; 0: the model's")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
      ->capture_default_str();
  command
      .add_option("--max-num-seqs", options.engine.max_sequences,
                  "Most requests that run at once; the others wait")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("--max-num-batched-tokens", options.engine.max_batched_tokens,
                  "Most tokens of a step, of prompts and of what is generated; at least --max-num-seqs")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option(
          "--kv-cache-memory-bytes", options.engine.kv_bytes,
          "Memory for keys and values, such as 8G; 0: room for --max-num-seqs of the longest sequence, "
          "but at most 4 GiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command.add_flag("!--no-prefix-caching", options.engine.prefix_cache,
                   "Compute every prompt from its first token, also where others began alike");
  command
      .add_option("--max-queue", options.loop.max_queue,
                  "Most requests that may wait; those that come then get status 503")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("--max-request-tokens", options.server.generation.max_tokens,
                  "Most tokens that one request may ask for; 0: what the context holds")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = add_command(
      app, "serve", "Serve a model over HTTP, as OpenAI's API does, with a web page",
      "grille serve model/ --port 8000",
      [options](const CommandContext& context) { return run(*options, context); }, RunsOn::kCpu);
  add_model_options(*command, options->model);
  add_network_options(*command, *options);
  add_engine_options(*command, *options);
}

}  // namespace grille::cli

#include "grille/server/endpoints.h"

#include <algorithm>

#include "grille/server/prepared_generation.h"
#include "grille/server/response_writer.h"
#include "grille/server/web_files.h"

namespace grille::server {
namespace {

HttpReply models_reply(const ServedModel& model) {
  Json list = Json::array();
  for (const std::string& name : model.names) list.push_back(model_json(name, model));
  const Json body = {{"object", "list"}, {"data", std::move(list)}};
  return json_reply(to_text(body));
}

HttpReply model_reply(const std::string& name, const ServedModel& model) {
  if (std::find(model.names.begin(), model.names.end(), name) == model.names.end())
    throw ApiError(Status::kNotFound, fmt::format("The model `{}` does not exist.", name), "model");
  return json_reply(to_text(model_json(name, model)));
}

HttpReply health_reply(const ServerContext& context) {
  if (context.draining) throw ApiError(Status::kUnavailable, "the server is shutting down");
  if (context.loop.stats().broken)
    throw ApiError(Status::kUnavailable, "the engine has failed; restart the server");
  return {};
}

HttpReply web_reply(const std::string& path) {
  const WebFile* file = find_web_file(path);
  if (file == nullptr) throw ApiError(Status::kNotFound, "no such file");
  HttpReply reply;
  reply.content_type = std::string(file->content_type);
  reply.body = std::string(file->content);
  reply.headers = {{"Content-Security-Policy",
                    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cache-Control", "no-cache"}};
  return reply;
}

HttpReply metrics_reply(const ServerContext& context) {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = context.metrics.text(context.loop.stats());
  return reply;
}

}  // namespace

Json model_json(const std::string& name, const ServedModel& model) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "grille"},
          {"root", model.names.front()},
          {"parent", nullptr},
          {"max_model_len", model.max_positions}};
}

Json tokenize(const Json& body, const ServedModel& model) {
  JsonFields fields(body);
  read_model(fields, model);
  std::vector<std::int32_t> ids;
  if (fields.find("messages") != nullptr) {
    const Json messages = read_messages(fields);
    const Json* variables = fields.object("chat_template_kwargs");
    const bool generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
    const std::string text =
        render_chat(messages, variables != nullptr ? *variables : Json::object(), generation_prompt, model);
    ids = encode_text(text, fields.boolean("add_special_tokens").value_or(false), model);
  } else {
    const auto prompt = fields.string("prompt");
    if (!prompt) refuse("prompt", "missing; give a string, or messages");
    ids = encode_text(*prompt, fields.boolean("add_special_tokens").value_or(true), model);
  }
  Json strings;
  if (fields.boolean("return_token_strs").value_or(false)) {
    strings = Json::array();
    for (const std::int32_t id : ids) strings.push_back(model.tokenizer.id_to_token(id).value_or(""));
  }
  return {{"count", ids.size()},
          {"max_model_len", model.max_positions},
          {"tokens", ids},
          {"token_strs", std::move(strings)}};
}

Json detokenize(const Json& body, const ServedModel& model) {
  JsonFields fields(body);
  read_model(fields, model);
  if (fields.find("tokens") == nullptr) refuse("tokens", "missing; give a list of token ids");
  const std::string text = model.tokenizer.decode(fields.ids("tokens", model.vocab_size - 1));
  Json result = Json::object();
  result["prompt"] = text;
  return result;
}

HttpReply answer_endpoint(const RouteMatch& match, const HttpRequest& request, const ServerContext& context) {
  switch (match.route) {
    case Route::kModels: return models_reply(context.model);
    case Route::kModel: return model_reply(match.argument, context.model);
    case Route::kTokenize: return json_reply(to_text(tokenize(parse_body(request.body), context.model)));
    case Route::kDetokenize: return json_reply(to_text(detokenize(parse_body(request.body), context.model)));
    case Route::kHealth: return health_reply(context);
    case Route::kMetrics: return metrics_reply(context);
    case Route::kVersion: return json_reply(fmt::format(R"({{"version":"{}"}})", GRILLE_VERSION));
    case Route::kModelCard: return json_reply(context.model.card);
    case Route::kWebFile: return web_reply(match.argument);
    default: throw ApiError(Status::kNotFound, "no such path");
  }
}

}  // namespace grille::server

// What all sessions of a server share.
#pragma once

#include <atomic>

#include <boost/asio/thread_pool.hpp>

#include "grille/engine/engine_loop.h"
#include "grille/server/api_keys.h"
#include "grille/server/metrics.h"
#include "grille/server/served_model.h"
#include "grille/server/server_options.h"

namespace grille::server {

struct ServerContext {
  const ServedModel& model;
  engine::EngineLoop& loop;
  const ServerOptions options;
  const ApiKeys keys;
  Metrics metrics;
  std::atomic<bool> draining{false};
  // For tokenizing and templates: long work that must not hold up those who read and write.
  boost::asio::thread_pool& workers;

  ServerContext(const ServedModel& served, engine::EngineLoop& engine_loop, const ServerOptions& given,
                boost::asio::thread_pool& pool)
      : model(served),
        loop(engine_loop),
        options(given),
        keys(given.api_keys),
        metrics(served.names.front()),
        workers(pool) {}
};

}  // namespace grille::server

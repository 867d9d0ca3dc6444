#pragma once
// A server that draws completions: POST /v1/completions as OpenAI has it, with token ids in and out and adapters loaded while it
// runs, as vLLM has them. docs/rollout-server.md says what a server must be.
//
//   CompletionServer server({.url = "http://localhost:8000/v1"});
//   server.use("job-step-000012-1a2b3c4d", "/runs/job/rollouts/adapters/step-000012-1a2b3c4d", stopped);
//   std::vector<DrawnCompletion> drawn = server.draw(asked, {.temperature = 1, .stop_ids = {2}, .vocab_size = 384}, stopped);
//
// Nothing that an answer says is taken on trust that can be seen to be wrong: every fault is an error that names it. What cannot be
// seen here (log-probabilities of other weights) the trainer compares with its own.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/net/http.h"

namespace forge {

struct CompletionServerSettings {
  std::string url;  // up to and with /v1
  std::map<std::string, std::string> headers;
  double timeout = 600;  // seconds a request
  int64_t concurrency = 32;
};

struct AskedCompletion {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
  int64_t seed = 0;
};

struct DrawSettings {
  double temperature = 1;  // 0: the likeliest token
  std::vector<int32_t> stop_ids;
  int64_t vocab_size = 0;
};

struct DrawnCompletion {
  std::vector<int32_t> ids;   // with the stop token, where one ended it
  std::vector<float> logps;   // of each, at the temperature
  bool stopped = false;       // by a stop token; else by max_tokens
};

class CompletionServer {
 public:
  explicit CompletionServer(CompletionServerSettings settings) : settings_(std::move(settings)) {}
  // Has the server drop the adapter, if it answers within two seconds.
  ~CompletionServer();
  CompletionServer(const CompletionServer&) = delete;

  // Loads an adapter under a name that was never used for another one, and drops the one before. Throws Error(environment).
  void use(const std::string& name, const std::string& folder, const std::function<bool()>& stopped);
  // In the order of `asked`, one request each; may be cut short once `stopped` says so. Throws Error(environment) with the first
  // fault of an answer.
  std::vector<DrawnCompletion> draw(const std::vector<AskedCompletion>& asked, const DrawSettings& settings,
                                    const std::function<bool()>& stopped) const;

 private:
  HttpRequest request(const std::string& path, const std::string& body) const;
  HttpAnswer post(const std::string& path, const std::string& body, const std::function<bool()>& stopped) const;

  CompletionServerSettings settings_;
  std::string adapter_;  // its name; empty: none yet
};

// What is wrong with a server's answer to one request, or nothing. `model`: the name that was asked for.
std::string completion_fault(const std::string& body, const AskedCompletion& asked, const DrawSettings& settings,
                             const std::string& model, DrawnCompletion& drawn);

}  // namespace forge

#pragma once
// A server that draws completions through OpenAI's POST /v1/completions, with token ids in and out
// and adapters loaded while it runs, as in vLLM. docs/rollout-server.md has the requirements on a
// server.
//
//   CompletionServer server({.url = "http://localhost:8000/v1"});
//   server.hold("job-step-000012-1a2b3c4d", "/runs/job/rollouts/adapters/step-000012-1a2b3c4d", {}, stopped);
//   const DrawSettings settings{.adapter = "job-step-000012-1a2b3c4d", .temperature = 1, .stop_ids = {2}, .vocab_size = 384};
//   std::vector<DrawnCompletion> drawn = server.draw(asked, settings, stopped);
//
// Every part of an answer that can be checked is checked, and every fault is an error that names
// it. Log-probabilities of other weights cannot be seen here; the trainer compares them with its
// own.
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/lib/net/http.h"

namespace forge {

struct CompletionServerSettings {
  std::string url;  // up to and with /v1
  std::map<std::string, std::string> headers;
  double timeout = 600;  // seconds a request
  int64_t concurrency = 32;
  int64_t most_adapters = 2;  // adapters held at once: for a message
};

struct AskedCompletion {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
  int64_t seed = 0;
};

struct DrawSettings {
  std::string adapter;     // one that is held
  double temperature = 1;  // 0: the likeliest token
  std::vector<int32_t> stop_ids;
  int64_t vocab_size = 0;
};

struct DrawnCompletion {
  std::vector<int32_t> ids;   // with the stop token, if one ended it
  std::vector<float> logps;   // log-probability of each id, at the temperature
  bool stopped = false;       // ended by a stop token; otherwise by max_tokens
};

class CompletionServer {
 public:
  explicit CompletionServer(CompletionServerSettings settings) : settings_(std::move(settings)) {}
  // Unloads the server's adapters, as far as it answers within two seconds.
  ~CompletionServer();
  CompletionServer(const CompletionServer&) = delete;

  // Loads an adapter under a name that was never used for another one, and then unloads those
  // before it that are not `needed`. Throws Error(environment).
  void hold(const std::string& name, const std::string& folder, const std::set<std::string>& needed, const std::function<bool()>& stopped);
  // Returns the completions in the order of `asked`, one request each. May end early once `stopped`
  // returns true. Throws Error(environment) with the first fault of an answer. Several threads may
  // draw while one loads and unloads other adapters.
  std::vector<DrawnCompletion> draw(const std::vector<AskedCompletion>& asked, const DrawSettings& settings,
                                    const std::function<bool()>& stopped) const;

 private:
  HttpRequest request(const std::string& path, const std::string& body) const;
  HttpAnswer post(const std::string& path, const std::string& body, const std::function<bool()>& stopped) const;

  CompletionServerSettings settings_;
  std::set<std::string> held_;  // names
};

// Returns the fault of a server's answer to one request, or an empty text.
std::string completion_fault(const std::string& body, const AskedCompletion& asked, const DrawSettings& settings, DrawnCompletion& drawn);

}  // namespace forge

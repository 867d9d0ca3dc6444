#include "core/run/host/draw_host.h"

#include <filesystem>
#include <set>

#include "core/learn/reward/score.h"
#include "core/lib/base/hash.h"

namespace forge {
namespace {

// Returns the adapter's name on the server: two runs of one job, which begin with the same weights,
// do not drop each other's.
std::string served_name(const std::string& job, const std::string& folder, const std::string& adapter) {
  const std::string run = std::filesystem::absolute(folder).parent_path().string();
  return job + "-" + hash_hex(run).substr(0, 6) + "-" + adapter;
}

}  // namespace

DrawHost::DrawHost(const Plan& plan)
    : plan_(plan),
      server_({.url = plan.job.rollout.server.url.value_or(""),
               .headers = plan.job.rollout.server.headers,
               .timeout = plan.job.rollout.server.timeout,
               .concurrency = plan.job.rollout.server.concurrency,
               .most_adapters = plan.job.rollout.server.max_staleness + 2}) {}

Json DrawHost::answer(const Json& event, const AnswerPort& engine) {
  const bool ahead = event.at("event") == "draw_ahead";
  if (!ahead)
    if (std::optional<Json> answer = queue_.take(event, engine.stopped)) return *answer;
  const std::string adapter = event.at("adapter"), folder = event.at("folder");
  const auto& elsewhere = plan_.job.rollout.server.adapter_folder;
  std::set<std::string> waiting;
  for (const Json& name : event.at("waiting")) waiting.insert(served_name(plan_.job.name, folder, name));
  server_.hold(served_name(plan_.job.name, folder, adapter), elsewhere ? *elsewhere + "/" + adapter : folder, waiting, engine.stopped);
  if (!ahead) return drawn(event, engine.stopped);
  queue_.add(event, [this, event](const std::function<bool()>& stopped) { return drawn(event, stopped); });
  return Json::object();
}

Json DrawHost::drawn(const Json& event, const std::function<bool()>& stopped) const {
  std::vector<AskedCompletion> asked;
  for (const Json& item : event.at("items"))
    asked.push_back({item.at("ids").get<std::vector<int32_t>>(), item.at("max_tokens"), item.at("seed")});
  const DrawSettings settings{.adapter = served_name(plan_.job.name, event.at("folder"), event.at("adapter")),
                              .temperature = event.at("temperature"),
                              .stop_ids = event.at("stop_ids").get<std::vector<int32_t>>(),
                              .vocab_size = plan_.model.vocab_size};
  Json items = Json::array();
  for (const DrawnCompletion& one : server_.draw(asked, settings, stopped))
    items.push_back({{"ids", one.ids}, {"logps", one.logps}, {"stopped", one.stopped}});
  if (stopped()) throw ScoringStopped{};
  return {{"items", std::move(items)}};
}

}  // namespace forge

#include "cli/draw_host.h"

#include <filesystem>

#include "core/base/hash.h"
#include "core/reward/score.h"

namespace forge {
namespace {

// The adapter's name on the server: two runs of one job, which begin with the same weights, do not drop each other's.
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
               .concurrency = plan.job.rollout.server.concurrency}) {}

Json DrawHost::answer(const Json& event, const AnswerPort& engine) {
  const std::string adapter = event.at("adapter");
  const std::string folder = event.at("folder");
  const auto& elsewhere = plan_.job.rollout.server.adapter_folder;
  server_.use(served_name(plan_.job.name, folder, adapter), elsewhere ? *elsewhere + "/" + adapter : folder, engine.stopped);
  std::vector<AskedCompletion> asked;
  for (const Json& item : event.at("items"))
    asked.push_back({item.at("ids").get<std::vector<int32_t>>(), item.at("max_tokens"), item.at("seed")});
  const DrawSettings settings{.temperature = event.at("temperature"),
                              .stop_ids = event.at("stop_ids").get<std::vector<int32_t>>(),
                              .vocab_size = plan_.model.vocab_size};
  const std::vector<DrawnCompletion> drawn = server_.draw(asked, settings, engine.stopped);
  if (engine.stopped()) throw ScoringStopped{};
  Json items = Json::array();
  for (const DrawnCompletion& one : drawn) items.push_back({{"ids", one.ids}, {"logps", one.logps}, {"stopped", one.stopped}});
  return {{"items", std::move(items)}};
}

}  // namespace forge

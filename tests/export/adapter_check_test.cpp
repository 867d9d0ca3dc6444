// Compares with PEFT 0.21.2's reading of adapter_config.json: tests/parity/make_adapter_goldens.py
// wrote the result for each file.
#include "core/run/export/adapter_check.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/lib/base/file.h"
#include "core/model/families/adapter_folder.h"
#include "tests/test.h"

namespace forge {
namespace {

const std::string kParity = std::string(FORGE_SOURCE_DIR) + "/tests/parity/goldens/";

std::string content(const std::string& path) { return read_file(path, 64 << 20, ErrorKind::environment); }

Json golden(const std::string& name) {
  const std::string path = std::string(FORGE_SOURCE_DIR) + "/tests/export/goldens/" + name;
  return parse_json(content(path), path, ErrorKind::environment);
}

ModelSpec tiny() { return read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama"); }

// Returns each adapted module with its rank and scale, or {} if forge refuses the folder.
std::map<std::string, std::pair<int64_t, double>> adapted(const std::string& folder, const ModelSpec& spec, std::string& refusal) {
  std::map<std::string, std::pair<int64_t, double>> modules;
  try {
    const AdapterFile file = read_adapter_config(folder);
    for (const AdapterSite& site : sites_of(file, spec)) modules[site.module] = {site.rank, site.scale};
    for (const VocabularySite& site : vocabulary_sites_of(file, spec)) modules[site.module] = {site.rank, site.scale};
  } catch (const Error& error) {
    refusal = error.what() + ("\n" + error.hint());
    modules.clear();
  }
  return modules;
}

}  // namespace

TEST_CASE("settings adapt the modules that PEFT adapts, with its ranks and scales, or are refused by both") {
  const ModelSpec plain = tiny();
  ModelSpec tied = plain;
  tied.tie_word_embeddings = true;
  TemporaryFolder folder;
  int accepted = 0, refused = 0, joined = 0;
  for (const Json& one : golden("adapter-rules.json")) {
    folder.write("adapter_config.json", dump_json(one["settings"]));
    std::string refusal;
    const auto modules = adapted(folder.path(), one.value("model", "base") == "tied" ? tied : plain, refusal);
    INFO(dump_json(one) << "\n" << refusal);
    if (one.value("tied", false)) {  // embedding and head as one, which PEFT does and forge does not
      CHECK(modules.empty());
      CHECK_THAT(refusal, Catch::Contains("ensure_weight_tying") && Catch::Contains("merge_and_unload()"));
      ++joined;
      continue;
    }
    if (one.contains("refused")) {
      CHECK(modules.empty());
      ++refused;
      continue;
    }
    std::map<std::string, std::pair<int64_t, double>> want;
    for (const auto& [module, of] : one["modules"].items()) want[module] = {of[0].get<int64_t>(), of[1].get<double>()};
    CHECK(modules.size() == want.size());
    if (modules.size() != want.size()) continue;
    for (const auto& [module, of] : want) {
      INFO(module);
      REQUIRE(modules.count(module) == 1);
      CHECK(modules.at(module).first == of.first);
      CHECK(modules.at(module).second == Approx(of.second).epsilon(1e-9));
    }
    ++accepted;
  }
  CHECK(accepted > 100);
  CHECK(refused > 50);
  CHECK(joined > 20);
}

namespace {

// Returns a safetensors file with other names and additional tensors of fp32 zeros: name → length.
std::string renamed(const std::string& file, const std::string& old, const std::optional<std::string>& now, const std::map<std::string, int64_t>& more) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const Json header = Json::parse(file.substr(8, length));
  std::string data = file.substr(8 + length);
  Json changed = Json::object();
  for (const auto& [name, entry] : header.items()) {
    std::string other = name;
    const size_t at = old.empty() ? std::string::npos : name.find(old);
    if (at != std::string::npos && !now) continue;
    if (at != std::string::npos) other.replace(at, old.size(), *now);
    changed[other] = entry;
  }
  for (const auto& [name, count] : more) {
    changed[name] = {{"dtype", "F32"}, {"shape", {count}}, {"data_offsets", {data.size(), data.size() + 4 * static_cast<size_t>(count)}}};
    data.append(4 * static_cast<size_t>(count), '\0');
  }
  const std::string text = changed.dump();
  length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

}  // namespace

TEST_CASE("adapter check says that PEFT loads tensors by the names that it loads them by, also without the base model") {
  const ModelSpec spec = tiny();
  TemporaryFolder folder;
  const std::string start = kParity + "adapter-init-lora/", file = content(start + "adapter_model.safetensors");
  const Json settings = parse_json(content(start + "adapter_config.json"), start, ErrorKind::environment);
  const std::vector<AdapterSite> trained = sites_of(read_adapter_config(start), spec);
  int loaded = 0;
  for (const Json& one : golden("adapter-tensors.json")) {
    Json changed = settings;
    if (one.contains("set")) changed.update(one["set"]);
    folder.write("adapter_config.json", dump_json(changed));
    std::map<std::string, int64_t> magnitudes;
    if (one.contains("magnitudes"))
      for (const AdapterSite& site : trained) magnitudes["base_model.model." + site.adapter + one["magnitudes"].get<std::string>()] = site.out_features;
    const Json replace = one.value("replace", Json::array({"", ""}));
    folder.write("adapter_model.safetensors", renamed(file, replace[0], replace[1].is_null() ? std::nullopt : std::optional(replace[1].get<std::string>()), magnitudes));
    for (const std::optional<ModelSpec>& base : {std::optional<ModelSpec>(), std::optional(spec)}) {
      const AdapterCheck check = check_adapter(folder.path(), base);
      const auto loader = std::find_if(check.loaders.begin(), check.loaders.end(), [](const Loader& two) { return two.program == "PEFT"; });
      INFO(dump_json(one) << "\n" << dump_json(to_json(check)));
      CHECK((loader != check.loaders.end() && loader->refusal.empty()) == (one["peft"] == "loads"));
    }
    loaded += one["peft"] == "loads";
  }
  CHECK(loaded == 2);
}

TEST_CASE("adapter check says that PEFT loads a folder where it does, and where it does not that it does not") {
  const ModelSpec spec = tiny();
  TemporaryFolder folder;
  const std::string start = kParity + "adapter-init-lora/";
  folder.write("adapter_model.safetensors", content(start + "adapter_model.safetensors"));
  const Json settings = parse_json(content(start + "adapter_config.json"), start, ErrorKind::environment);
  std::map<std::string, int> seen;
  for (const Json& edit : golden("adapter-edits.json")) {
    // PEFT reads an object as the list of its keys, and accepts any model for a model of scores.
    if (edit.value("/set/exclude_modules"_json_pointer, Json()).is_object() || edit.value("/set/task_type"_json_pointer, Json()) == "SEQ_CLS") continue;
    Json changed = settings;
    if (edit.contains("set")) changed.update(edit["set"]);
    if (edit.contains("remove")) changed.erase(edit["remove"].get<std::string>());
    folder.write("adapter_config.json", dump_json(changed));
    const AdapterCheck check = check_adapter(folder.path(), spec);
    const auto loader = std::find_if(check.loaders.begin(), check.loaders.end(), [](const Loader& one) { return one.program == "PEFT"; });
    const bool says_yes = loader != check.loaders.end() && loader->refusal.empty();
    INFO(dump_json(edit) << "\n" << dump_json(to_json(check)));
    CHECK(says_yes == (edit["peft"] == "loads"));
    ++seen[edit["peft"].get<std::string>()];
  }
  CHECK((seen["loads"] > 300 && seen["refused"] > 300 && seen["partly"] > 30));
}

}  // namespace forge

#include "core/data/dataset.h"

namespace forge {
namespace {

struct TextField {
  const char* key;
  std::string DataSummary::*member;
};
constexpr TextField kTexts[] = {{"content_hash", &DataSummary::content_hash},
                                {"cache_path", &DataSummary::cache_path},
                                {"format", &DataSummary::format},
                                {"lost_rows_path", &DataSummary::lost_rows_path}};
struct CountField {
  const char* key;
  int64_t DataSummary::*member;
};
constexpr CountField kCounts[] = {{"rows", &DataSummary::rows},
                                  {"examples", &DataSummary::examples},
                                  {"tokens", &DataSummary::tokens},
                                  {"supervised_tokens", &DataSummary::supervised_tokens},
                                  {"longest", &DataSummary::longest},
                                  {"truncated", &DataSummary::truncated},
                                  {"split", &DataSummary::split},
                                  {"dropped", &DataSummary::dropped},
                                  {"skipped", &DataSummary::skipped},
                                  {"untrained", &DataSummary::untrained},
                                  {"sampled_rows", &DataSummary::sampled_rows}};

// Absent in plans of older runs.
struct CutField {
  const char* key;
  int64_t CutCounts::*member;
};
constexpr CutField kCuts[] = {{"prompts_cut", &CutCounts::prompts},
                              {"completions_cut", &CutCounts::completions},
                              {"tokens_cut", &CutCounts::tokens},
                              {"tokens_dropped", &CutCounts::dropped_tokens},
                              {"unsaid", &CutCounts::unsaid}};

}  // namespace

CutCounts& CutCounts::operator+=(const CutCounts& other) {
  for (const CutField& field : kCuts) this->*field.member += other.*field.member;
  return *this;
}

Json to_json(const DataSummary& summary) {
  Json json = Json::object();
  for (const TextField& field : kTexts) json[field.key] = summary.*field.member;
  for (const CountField& field : kCounts) json[field.key] = summary.*field.member;
  for (const CutField& field : kCuts) json[field.key] = summary.cuts.*field.member;
  json["unsampled"] = summary.unsampled;
  json["estimated"] = summary.estimated;
  return json;
}

DataSummary data_summary_from_json(const Json& json) {
  DataSummary summary;
  try {
    for (const TextField& field : kTexts) summary.*field.member = json.at(field.key).get<std::string>();
    for (const CountField& field : kCounts) summary.*field.member = json.at(field.key).get<int64_t>();
    for (const CutField& field : kCuts) summary.cuts.*field.member = json.value(field.key, int64_t{0});
    summary.unsampled = json.value("unsampled", int64_t{0});  // plans made before weights have none
    summary.estimated = json.at("estimated").get<bool>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::data,
                std::string("a data summary with a missing or wrong member: ") + error.what());
  }
  return summary;
}

}  // namespace forge

#include "core/data/examples/data_summary.h"

#include <algorithm>

#include "core/job/names.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"

namespace forge {
namespace {

constexpr CountField<DataSummary> kCounts[] = {{"rows", &DataSummary::rows},
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

// `formats` are the names of the summary's formats. The plans of older runs do not have the later
// members.
constexpr auto kMembers = [](auto& summary, auto& formats, auto&& member) {
  member("content_hash", summary.content_hash, "");
  member("cache_path", summary.cache_path, "");
  member("format", summary.format, "");
  member("lost_rows_path", summary.lost_rows_path, "");
  member.later("advice", summary.advice, "");
  member.later("formats", formats, "");
  for (const auto& [key, count] : kCounts) member(key, summary.*count, "", at_least(0));
  for (const auto& [key, count] : kCutCounts) member.later(key, summary.cuts.*count, "", at_least(0));
  member.later("longest_pair", summary.pairs.longest, "", at_least(0));
  for (const auto& [key, count] : kPairCounts) member.later(key, summary.pairs.*count, "", at_least(0));
  member.later("unsampled", summary.unsampled, "", at_least(0));
  member.later("unread_keys", summary.unread_keys, "", at_least(0));
  member.rare("columns", summary.columns, "", at_least(0));
  member("estimated", summary.estimated, "");
};

RowFormat format_named(const std::string& name) {
  const std::optional<RowFormat> format = enum_of<RowFormat>(name);
  if (!format) throw MemberFault("formats: " + name + " is no format of rows");
  return *format;
}

}  // namespace

Json to_json(const DataSummary& summary) {
  Json json = Json::object();
  std::vector<std::string> formats;
  for (RowFormat format : summary.formats) formats.push_back(name_of(format));
  kMembers(summary, formats, MemberWriter{json});
  return json;
}

DataSummary data_summary_from_json(const Json& json) {
  DataSummary summary;
  try {
    std::vector<std::string> formats;
    kMembers(summary, formats, MemberReader{json});
    for (const std::string& name : formats) summary.formats.push_back(format_named(name));
  } catch (const MemberFault& fault) {
    throw Error(ErrorKind::data,
                std::string("a data summary with a missing or wrong member: ") + fault.what());
  }
  return summary;
}

std::string unread_text(const DataSummary& summary) {
  constexpr size_t kShown = 12;
  std::vector<std::string> parts;
  for (const auto& [key, rows] : summary.unread_keys) {
    if (parts.size() < kShown)
      parts.push_back(printable(key) + " (" + format_count(rows) + (rows == 1 ? " row)" : " rows)"));
  }
  const size_t others = summary.unread_keys.size() - parts.size();
  return join(parts, ", ") + (others > 0 ? " and " + std::to_string(others) + " more" : "");
}

std::string pairs_text(const PairCounts& pairs, int64_t count) {
  const auto mean = [&](int64_t tokens) { return format_count((tokens + count / 2) / std::max<int64_t>(1, count)); };
  std::string text = "answers of " + mean(pairs.chosen_tokens) + " (chosen) and " + mean(pairs.rejected_tokens) +
                     " tokens (rejected) on average; the chosen one is longer in " + format_count(pairs.chosen_longer) +
                     ", the rejected one in " + format_count(pairs.rejected_longer);
  const auto add = [&](int64_t n, const char* what) {
    if (n > 0) text += "; " + format_count(n) + what;
  };
  add(pairs.equal, " dropped because their answers are equal");
  add(pairs.one_side_cut, " with one answer cut");
  add(pairs.other_prompts, " whose two answers answer different prompts");
  add(pairs.prompts_differ - pairs.other_prompts, " whose prompts end in different tokens");
  return text;
}

std::string classes_text(const PairCounts& pairs) {
  return format_count(pairs.desirable) + " desirable, " + format_count(pairs.undesirable) + " undesirable";
}

}  // namespace forge

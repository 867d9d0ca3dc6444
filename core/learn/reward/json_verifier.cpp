// json_schema: finds the JSON in a completion and validates it.
#include "core/learn/reward/answer.h"
#include "core/learn/reward/verifiers.h"
#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/lib/schema/json_schema.h"

namespace forge {
namespace {

constexpr int64_t kMostSchemaBytes = 1 << 20;
constexpr int64_t kMostScanned = int64_t{64} << 20;  // bytes looked at to find the last JSON of a text

// Returns the content of the last ``` … ``` whose first line is empty or names JSON.
std::optional<std::string_view> last_fenced(std::string_view text) {
  constexpr std::string_view kFence = "```";
  std::optional<std::string_view> last;
  for (size_t open = text.find(kFence); open != text.npos;) {
    const size_t line = text.find('\n', open);
    if (line == text.npos) break;
    const size_t close = text.find(kFence, line);
    if (close == text.npos) break;
    const std::string language = lower(trim(text.substr(open + kFence.size(), line - open - kFence.size())));
    if (language.empty() || language == "json") last = text.substr(line + 1, close - line - 1);
    open = text.find(kFence, close + kFence.size());
  }
  return last;
}

// Returns the offset after the object or array that begins at `at`; npos when it does not end.
size_t end_of_value(std::string_view text, size_t at) {
  int64_t depth = 0;
  bool quoted = false;
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return text.npos;
}

// Returns the last object or array of the text that is JSON.
std::optional<Json> last_value(std::string_view text) {
  std::optional<Json> last;
  int64_t scanned = 0;
  for (size_t at = text.find_first_of("{["); at != text.npos; at = text.find_first_of("{[", at)) {
    const size_t end = end_of_value(text, at);
    scanned += static_cast<int64_t>((end == text.npos ? text.size() : end) - at);
    if (scanned > kMostScanned)
      throw PatternGaveUp("finding the JSON in the completion takes too many steps");
    std::optional<Json> value = end == text.npos ? std::nullopt : try_json(text.substr(at, end - at));
    at = value ? end : at + 1;
    if (value) last = std::move(value);
  }
  return last;
}

std::optional<Json> find_json(std::string_view completion, JsonWhere where) {
  if (where == JsonWhere::last) return last_value(completion);
  if (where == JsonWhere::whole) return try_json(completion);
  const std::optional<std::string_view> fenced = last_fenced(completion);
  return fenced ? try_json(*fenced) : std::nullopt;
}

Json read_schema(const std::string& path, const std::string& key) {
  try {
    return parse_json(read_file(path, kMostSchemaBytes, ErrorKind::environment), path, ErrorKind::job);
  } catch (const Error& error) {
    throw KeyError(error.kind(), key, error.what());
  }
}

}  // namespace

Verifier verifier_of(const JsonSchemaReward& reward, const std::string& key) {
  const auto schema =
      std::make_shared<JsonSchema>(read_schema(*reward.schema, key + ".schema"), key + ".schema");
  return [schema, where = reward.where, partial = reward.partial](const RewardSample& sample) {
    const std::optional<Json> value = find_json(sample.completion, where);
    if (!value) return Score::of(0, "no JSON in " + in_quotes(sample.completion));
    const std::string problem = schema->problem(*value);
    return problem.empty() ? Score::of(1, "valid") : Score::of(partial, problem);
  };
}

}  // namespace forge

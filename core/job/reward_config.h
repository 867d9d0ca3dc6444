#pragma once
// An item of the list `rewards` as values: a verifier and its weight. Each type has a struct of its
// own keys. A key that several types have is a member of a struct that they share.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/job/one_of.h"

namespace forge {

enum class RewardType {
  exact, contains, regex, numeric, math, choice, json_schema, tags, length, repetition, overlong, command, http, model,
};
enum class RegexMatch { full, search };
enum class JsonWhere { whole, fenced, last };
enum class LengthUnit { tokens, words, characters };
enum class OnRewardError { stop, unscored };

// The reference answer of a row.
struct WithAnswer {
  std::optional<std::string> answer;  // its column, a dotted path; not set: "answer"
};
// An answer that is looked for in the completion.
struct Extracting : WithAnswer {
  std::string extract = "auto";  // the place of the answer
};
struct Casefolding {
  bool casefold = false;
};
struct PartlyScored {
  double partial = 0;  // score of an answer that can be read and is wrong
};
struct WithMost {
  std::optional<int64_t> max;
};
struct Penalising {
  double penalty = 1;
};
struct WithTimeout {
  double timeout = 60;  // seconds an item
};
struct ValueReward : Extracting, PartlyScored {
  double tolerance = 0;  // relative
};

struct ExactReward : Extracting, Casefolding {
  bool strip = true;
};
struct ContainsReward : Casefolding {
  std::vector<std::string> all, none;
};
struct RegexReward : WithAnswer {
  std::optional<std::string> pattern;
  RegexMatch match = RegexMatch::search;
};
struct NumericReward : ValueReward {};
struct MathReward : ValueReward {};
struct ChoiceReward : Extracting, PartlyScored {
  std::vector<std::string> choices{"A", "B", "C", "D"};
};
struct JsonSchemaReward : PartlyScored {
  std::optional<std::string> schema;  // a file
  JsonWhere where = JsonWhere::whole;
};
struct TagsReward {
  std::vector<std::string> tags;
  bool strict = false;
};
struct LengthReward : WithMost {
  LengthUnit unit = LengthUnit::tokens;
  std::optional<int64_t> min;
  std::optional<std::string> target;  // column of the wanted length
  double slack = 0;                   // in the unit: how far outside the score falls to 0
};
struct RepetitionReward : Penalising {
  int64_t ngram = 3;
};
struct OverlongReward : WithMost, Penalising {
  int64_t buffer = 0;  // tokens before max in which the penalty grows
};
struct CommandReward : WithTimeout {
  std::vector<std::string> command;
  int64_t workers = 1;
  std::optional<int64_t> memory_limit;
  std::vector<std::string> environment;  // names of variables that the process gets
  std::optional<std::string> directory;  // absolute after load_job
};
struct HttpReward : WithTimeout {
  std::optional<std::string> url;
  std::string field = "score";  // field of its answer, a dotted path
  std::map<std::string, std::string> headers;
  int64_t concurrency = 4;  // requests at once
};
struct ModelReward {
  std::optional<std::string> path;
};

struct RewardConfig : OneOf<RewardType, ExactReward, ContainsReward, RegexReward, NumericReward, MathReward, ChoiceReward,
                            JsonSchemaReward, TagsReward, LengthReward, RepetitionReward, OverlongReward, CommandReward,
                            HttpReward, ModelReward> {
  using OneOf::OneOf;

  std::string name;  // empty: the type's name
  double weight = 1;                 // 0: measured only
  std::optional<std::string> needs;  // key `requires`: counts only where that reward is above 0
  OnRewardError on_error = OnRewardError::stop;
  double max_unscored = 0.1;  // share of a batch
};

}  // namespace forge

// One answer with a judgement: KTO's label, or a score. {"prompt", "completion"} or {"messages"} or
// {"conversations"} or alpaca's {"instruction", "input", "output"}, and beside it "label" (or
// LLaMA-Factory's "kto_tag"; true, false, 1, 0), "score" (or "reward").
#include <cmath>

#include "core/data/rows/formats/format.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

std::variant<ChatRow, PairRow> answer_of(const Json& row, const RowOptions& options, RowFaults& faults) {
  Row whole = member(row, "messages")        ? convert_messages(row, options, faults)
              : member(row, "conversations") ? convert_sharegpt(row, options, faults)
              : member(row, "instruction")   ? convert_alpaca(row, options, faults)
                                             : convert_prompt_completion(row, options, faults);
  if (auto* pair = std::get_if<PairRow>(&whole)) return std::move(*pair);
  ChatRow chat = std::move(std::get<ChatRow>(whole));
  if (faults.empty() && chat.messages.back().value("role", "") != "assistant")
    faults.push_back({"", "the row does not end with an assistant's turn, which is judged"});
  // The last turn is judged; everything before it is the prompt.
  chat.prompt_messages = std::max<int64_t>(0, static_cast<int64_t>(chat.messages.size()) - 1);
  return chat;
}

Row one(std::string name, std::variant<ChatRow, PairRow> answer) {
  AnswersRow row;
  row.answers.push_back({std::move(name), std::move(answer)});
  return row;
}

}  // namespace

Row convert_kto(const Json& row, const RowOptions& options, RowFaults& faults) {
  auto answer = answer_of(row, options, faults);
  const std::string key = member(row, "kto_tag") ? "kto_tag" : "label";
  const Json* label = member(row, key);
  bool desirable = false;
  if (!label)
    faults.push_back({"", "label is missing, expected true or false"});
  else if (const std::optional<bool> value = label_value(*label))
    desirable = *value;
  else
    faults.push_back({"/" + key, key + " is " + (label->is_string() ? dump_json(*label) : kind_of(*label)) +
                                     ", expected true or false, 1 or 0"});
  return one(desirable ? "desirable" : "undesirable", std::move(answer));
}

Row convert_reward(const Json& row, const RowOptions& options, RowFaults& faults) {
  auto answer = answer_of(row, options, faults);
  const std::string key = member(row, "reward") && !member(row, "score") ? "reward" : "score";
  const Json* score = member(row, key);
  if (!score)
    faults.push_back({"", "score is missing, expected a number"});
  else
    expect(score->is_number() && std::isfinite(score->get<double>()), "/" + key, key, *score,
           "a number", faults);
  const std::string name = faults.empty() ? "score " + format_number(score->get<double>()) : "score";
  return one(name, std::move(answer));
}

}  // namespace forge

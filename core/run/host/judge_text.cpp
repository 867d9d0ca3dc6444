#include "core/run/host/judge_text.h"

#include "core/data/rows/rows.h"
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

ModelText text_of(const JudgeModel& judge) {
  TemplateChoice choice;
  if (!judge.adapter.empty() && find_chat_template(judge.adapter, /*with_tools=*/false)) choice.folder = judge.adapter;
  ModelText text = open_model_text(judge.model, choice);
  text.model = example_model(judge.spec);
  return text;
}

// The model reads valid text, whatever the policy writes.
Row row_of(const RewardSample& sample, bool has_template) {
  const std::string completion = text::replace_invalid_utf8(sample.completion);
  if (!sample.messages.is_array()) return PairRow{sample.prompt, completion};
  Json messages = sample.messages;
  messages.push_back({{"role", "assistant"}, {"content", completion}});
  RowFaults faults;
  std::optional<Row> row = convert_row({{"messages", std::move(messages)}}, RowFormat::messages, {.has_template = has_template}, faults);
  if (!row) throw Error(ErrorKind::data, faults.empty() ? "is not a conversation" : faults[0].message);
  return *std::move(row);
}

}  // namespace

std::vector<Score> JudgedTexts::scores(const Json& values) const {
  FORGE_CHECK(values.size() == asked.size(), values.size() << " scores of " << asked.size() << " texts");
  std::vector<Score> result = all;
  for (size_t i = 0; i < asked.size(); ++i)
    result[asked[i]] = values[i].is_number() ? Score::of(values[i].get<double>())
                                             : Score::failed("the reward model's score is not finite", ErrorKind::environment);
  return result;
}

JudgeText::JudgeText(const JudgeModel& judge, int64_t longest)
    : text_(std::make_unique<ModelText>(text_of(judge))), longest_(longest > 0 ? longest : judge.spec.max_position_embeddings) {
  maker_ = std::make_unique<ExampleMaker>(text_->tokenizer, text_->chat_template ? &*text_->chat_template : nullptr, Job(),
                                          text_->model);
}

JudgedTexts JudgeText::encode(const std::vector<RewardSample>& samples) const {
  JudgedTexts texts;
  for (const RewardSample& sample : samples) {
    texts.all.emplace_back();
    Score& score = texts.all.back();
    try {
      Example example = maker_->tokens_of(row_of(sample, maker_->has_template()));
      const auto tokens = static_cast<int64_t>(example.ids.size());
      if (longest_ > 0 && tokens > longest_) {
        score = Score::failed(format_count(tokens) + " tokens, and the reward model reads at most " + format_count(longest_));
        continue;
      }
      texts.asked.push_back(texts.all.size() - 1);
      texts.ids.push_back(std::move(example.ids));
    } catch (const Error& error) {
      score = Score::failed(error.what(), error.kind());
    }
  }
  return texts;
}

}  // namespace forge

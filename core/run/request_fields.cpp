#include "core/run/request_fields.h"

#include <algorithm>
#include <array>

namespace forge {
namespace {

using enum FieldType;

constexpr EventField kTrain[] = {
    {"plan", object, true, "plan.json"},
    {"job_text", text, true, "the job file as given, its secrets hidden"},
    {"run_folder", text, true, "folder of the run"},
    {"resume", flag, false, "continue from the newest whole checkpoint (default false)"},
    {"amendments", list, false, "amendments to append to those of the run"},
    {"secrets", list, false, "variable and value of each secret, which no file of the run may hold"},
    {"lock", integer, false,
     "descriptor of the run folder's lock, shared with the program; without it the engine locks"},
    {"spent_seconds", number, false, "seconds spent on the run before this request; train.max_time counts them"},
};
constexpr EventField kMeasure[] = {
    {"plan", object, true, "plan.json"},
    {"steps", integer, false, "least number of steps measured, after one that warms up (on a GPU three)"},
    {"seconds", number, false, "no step begins after this many seconds"},
    {"trace", text, false, "a file for Chrome's trace viewer, or empty; the only file that is written"},
    {"ops", flag, false, "send an event `ops` after the last step; on a CPU"},
};
constexpr EventField kRates[] = {
    {"precisions", list, true, "names: fp32, bf16, fp16"},
    {"threads", integer, true, "threads that arithmetic uses"},
    {"seconds", number, false, "rough duration"},
};
// Fields that requests share, in the order of the documentation.
template <size_t... counts>
constexpr auto joined(const EventField (&... tables)[counts]) {
  std::array<EventField, (counts + ...)> all{};
  size_t next = 0;
  const auto append = [&](const auto& table) {
    for (const EventField& field : table) all[next++] = field;
  };
  (append(tables), ...);
  return all;
}

constexpr EventField kModel[] = {
    {"model", text, true, "a Hugging Face folder or a .gguf file"},
    {"adapter", text, false, "a PEFT folder"},
};
constexpr EventField kPrecision[] = {
    {"precision", text, false, "fp32 (default), bf16 or fp16"},
    {"quantization", text, false, "none (default), nf4, fp4, int8 or fp8"},
    {"double_quantization", flag, false, "for nf4 and fp4: keep their scales in 8 bits (default false)"},
};
constexpr EventField kPlace[] = {
    {"provider", text, true, "fused or reference"},
    {"device", text, false, "cpu (default) or cuda:N"},
    {"threads", integer, false, "threads that arithmetic uses"},
};

constexpr EventField kEvaluated[] = {
    {"tokens", text, true, "a token cache"},
    {"job", object, false, "the job whose objective is evaluated (default: the likelihood of the supervised tokens)"},
    {"reference_model", text, false, "the model that a dpo or kto job compares with, quantised in the same way"},
    {"reference_adapter", text, false, "a PEFT folder for it"},
};
constexpr EventField kDrawn[] = {
    {"prompts", list, true, "lists of token ids"},
    {"max_new_tokens", integer, false, "most new tokens of each text (default 256)"},
    {"temperature", number, false, "0 (default) takes the likeliest token"},
    {"top_k", integer, false, "0 (default): all"},
    {"top_p", number, false, "1 (default): all"},
    {"min_p", number, false, "0 (default): all"},
    {"repetition_penalty", number, false, "1 (default): none"},
    {"seed", integer, false, "seed of the draws (default 42)"},
    {"lookup_tokens", integer, false, "most tokens of a text that are guessed at once; not with a grammar (default 0)"},
    {"stop_ids", list, false, "tokens that end a text"},
    {"grammar", object, false, "grammar that every text must match: root and rules, as core/text/grammar/grammar.h writes them"},
    {"text", text, false, "for a grammar: where the tokenizer is"},
    {"turns", flag, false, "with one prompt: after its text and the event turn the engine waits for the next request to the same "
                           "model, and computes only the part of its prompt that is new (default false)"},
};
constexpr EventField kJudged[] = {{"texts", list, true, "lists of token ids"}};
constexpr EventField kCompared[] = {
    {"other", object, true, "the second model: its model and, if set, adapter, quantization, double_quantization"},
    {"prompts", list, true, "lists of token ids that both models read"},
    {"precision", text, false, "precision of both: fp32 (default), bf16 or fp16"},
    {"quantization", text, false, "quantization of the first: none (default), nf4, fp4, int8 or fp8"},
    {"double_quantization", flag, false, "for nf4 and fp4: keep their scales in 8 bits (default false)"},
};
constexpr auto kEval = joined(kModel, kEvaluated, kPrecision, kPlace);
constexpr auto kGenerate = joined(kModel, kDrawn, kPrecision, kPlace);
constexpr auto kJudge = joined(kModel, kJudged, kPrecision, kPlace);
constexpr auto kCompare = joined(kModel, kCompared, kPlace);

constexpr EventShape kShapes[] = {
    {"train", "start a run, or continue one", kTrain},
    {"measure", "time a plan's own steps: `forge bench`", kMeasure},
    {"rates", "time the ops of small models: `forge bench --kernels`", kRates},
    {"eval", "compute the loss of every example: `forge eval`", kEval},
    {"generate", "generate text: `forge generate`, `forge chat`", kGenerate},
    {"judge", "score texts with a reward model: `forge score --rewards`", kJudge},
    {"compare", "compare two models' logits: `forge merge`, `forge export`", kCompare},
    {"info", "describe the engine: `forge doctor`", {}},
};

}  // namespace

std::span<const EventShape> request_shapes() { return kShapes; }

std::vector<std::string> request_faults(const Json& request) {
  if (!request.is_object() || !request.contains("command") || !request["command"].is_string())
    return {"a request is an object with the text \"command\""};
  const std::string command = request["command"].get<std::string>();
  const auto shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                  [&](const EventShape& s) { return command == s.name; });
  if (shape == std::end(kShapes)) return {"unknown command \"" + command + "\""};
  std::vector<std::string> faults = field_faults(command, shape->fields, request);
  for (const auto& [key, value] : request.items())
    if (key != "command" && std::none_of(shape->fields.begin(), shape->fields.end(),
                                         [&](const EventField& f) { return key == f.name; }))
      faults.push_back(command + ": unknown field " + key);
  return faults;
}

}  // namespace forge

#include "core/run/request_fields.h"

#include <algorithm>

#include "core/lib/base/join_tables.h"

namespace forge {
namespace {

using enum FieldType;

constexpr EventField kTrain[] = {
    {"plan", object, true, "plan.json."},
    {"job_text", text, true, "Text of the job file, with its secrets hidden."},
    {"run_folder", text, true, "Folder of the run."},
    {"resume", flag, false, "Continue from the newest complete checkpoint (default false)."},
    {"amendments", list, false, "Amendments to append to those of the run."},
    {"secrets", list, false,
     "Variable and value of each secret. No file of the run may contain the values."},
    {"lock", integer, false,
     "Descriptor of the run folder's lock, shared with the program. Without it, the engine locks "
     "the folder."},
    {"spent_seconds", number, false,
     "Time spent on the run before this request. train.max_time includes it."},
};
constexpr EventField kMeasure[] = {
    {"plan", object, true, "plan.json."},
    {"steps", integer, false,
     "Minimum number of steps to measure, after one warm-up step (three on a GPU)."},
    {"seconds", number, false, "Time after which no step begins."},
    {"trace", text, false,
     "File for Chrome's trace viewer, or empty. The only file that is written."},
    {"ops", flag, false, "True to send an event `ops` after the last step."},
};
constexpr EventField kRates[] = {
    {"precisions", list, true, "Names: fp32, bf16, fp16."},
    {"threads", integer, true, "Number of CPU threads used for computation."},
    {"seconds", number, false, "Approximate total time."},
};

// Fields that requests share, in the order of the documentation.
constexpr EventField kModel[] = {
    {"model", text, true, "Hugging Face folder or .gguf file."},
    {"family", text, false, "Family file that describes the model's class (docs/family-files.md)."},
    {"adapter", text, false, "PEFT folder."},
};
constexpr EventField kPrecision[] = {
    {"precision", text, false, "fp32 (default), bf16 or fp16."},
    {"quantization", text, false, "none (default), nf4, fp4, int8 or fp8."},
    {"double_quantization", flag, false,
     "True to store the scales of nf4 and fp4 in 8 bits (default false)."},
};
constexpr EventField kPlace[] = {
    {"provider", text, true, "fused or reference."},
    {"device", text, false, "cpu (default) or cuda:N."},
    {"threads", integer, false, "Number of CPU threads used for computation."},
};

constexpr EventField kEvaluated[] = {
    {"tokens", text, true, "Token cache."},
    {"job", object, false,
     "Job whose objective is evaluated (default: the likelihood of the supervised tokens)."},
    {"reference_model", text, false,
     "Reference model of a dpo or kto job, quantized like the model."},
    {"reference_adapter", text, false, "PEFT folder for the reference model."},
};
constexpr EventField kDrawn[] = {
    {"prompts", list, true, "Lists of token ids."},
    {"max_new_tokens", integer, false, "Maximum number of tokens per text (default 256)."},
    {"temperature", number, false,
     "Sampling temperature. 0 (default) takes the most likely token."},
    {"top_k", integer, false, "Number of most likely tokens to sample from. 0 (default) is all."},
    {"top_p", number, false, "Total probability of the tokens to sample from. 1 (default) is all."},
    {"min_p", number, false,
     "Least probability of a token, relative to the most likely one. 0 (default) is all."},
    {"repetition_penalty", number, false,
     "Penalty on tokens that occurred before: divides their logits if positive, multiplies them if "
     "negative. 1 (default) is none."},
    {"seed", integer, false, "Random seed (default 42)."},
    {"lookup_tokens", integer, false,
     "Maximum number of tokens guessed at once per text (default 0). Not allowed with a grammar."},
    {"stop_ids", list, false, "Tokens that end a text."},
    {"grammar", object, false,
     "Grammar that every text must follow: root and rules, as core/lib/text/grammar/grammar.h writes "
     "them."},
    {"text", text, false, "Place of the tokenizer, for a grammar."},
    {"turns", flag, false,
     "True to keep one prompt open (default false): after its text, the engine sends the event "
     "turn and waits for the next request to the same model, of which it computes only the part of "
     "the prompt that it does not hold."},
};
constexpr EventField kJudged[] = {{"texts", list, true, "Lists of token ids."}};
constexpr EventField kAlong[] = {
    {"prompts", list, true, "Lists of token ids."},
    {"stride", integer, true, "Only each so many columns of the vocabulary are sent."},
};
constexpr EventField kCompared[] = {
    {"other", object, true,
     "Second model: model and, if it has them, adapter, quantization and double_quantization."},
    {"prompts", list, true, "Lists of token ids that both models read."},
    {"precision", text, false, "Precision of both: fp32 (default), bf16 or fp16."},
    {"quantization", text, false,
     "Quantization of the first model: none (default), nf4, fp4, int8 or fp8."},
    {"double_quantization", flag, false,
     "True to store the scales of nf4 and fp4 in 8 bits (default false)."},
};
constexpr auto kEval = join_tables(kModel, kEvaluated, kPrecision, kPlace);
constexpr auto kGenerate = join_tables(kModel, kDrawn, kPrecision, kPlace);
constexpr auto kJudge = join_tables(kModel, kJudged, kPrecision, kPlace);
constexpr auto kLogits = join_tables(kModel, kAlong, kPrecision, kPlace);
constexpr auto kCompare = join_tables(kModel, kCompared, kPlace);

constexpr EventShape kShapes[] = {
    {"train", "Starts or continues a run.", kTrain},
    {"measure", "Times the steps of a plan: `forge bench`.", kMeasure},
    {"rates", "Times the ops of small models: `forge bench --kernels`.", kRates},
    {"eval", "Computes the loss of every example: `forge eval`.", kEval},
    {"generate", "Generates text: `forge generate`, `forge chat`.", kGenerate},
    {"judge", "Scores texts with a reward model: `forge score --rewards`.", kJudge},
    {"compare", "Compares the logits of two models: `forge merge`, `forge export`.", kCompare},
    {"logits", "Computes logits along texts: `forge family check`.", kLogits},
    {"info", "Describes the engine: `forge doctor`.", {}},
};

}  // namespace

std::span<const EventShape> request_shapes() { return kShapes; }

std::vector<std::string> request_faults(const Json& request) {
  if (!request.is_object() || !request.contains("command") || !request["command"].is_string())
    return {"a request is an object with the text \"command\""};
  const std::string command = request["command"].get<std::string>();
  const auto shape = std::ranges::find(kShapes, command, &EventShape::name);
  if (shape == std::end(kShapes)) return {"unknown command \"" + command + "\""};
  std::vector<std::string> faults = field_faults(command, shape->fields, request);
  for (const auto& [key, value] : request.items())
    if (key != "command" && std::ranges::count(shape->fields, key, &EventField::name) == 0)
      faults.push_back(command + ": unknown field " + key);
  return faults;
}

}  // namespace forge

#include "core/job/rules.h"

#include <algorithm>
#include <cctype>

#include "core/lib/base/file.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/job/row_template.h"

namespace forge {
namespace {

class Rules : RuleFaults {
 public:
  using RuleFaults::RuleFaults;

  void check() {
    // Rules read values, so rules on refused values are skipped.
    auto sound = [&, refused = faults_](std::initializer_list<const char*> sections) {
      return std::none_of(sections.begin(), sections.end(),
                          [&](const char* s) { return refused.concern(s); });
    };
    if (sound({"name"})) name();
    if (sound({"adapter"})) adapter();
    if (sound({"adapter", "model", "objective"})) quantization();
    start();
    separated();
    joined();
    if (sound({"adapter"})) patterns();
    if (sound({"train", "data"})) batch();
    if (sound({"objective", "data"})) objective();
    if (sound({"data"})) data();
    if (sound({"data", "eval", "checkpoint"})) evaluation();
    if (sound({"optimizer"})) optimizer();
    if (sound({"schedule"})) schedule();
    if (sound({"hardware"})) device();
    if (sound({"allow"})) allowances();
    if (sound({"rewards"})) check_rewards(job_, parsed_, file_, faults_);
    const bool draws = job_.objective.find<PolicyConfig>() != nullptr;
    if (!draws && sound({"objective", "rewards"})) rewards();
    if (draws && sound({"objective", "rewards", "rollout", "eval", "train", "data", "adapter"}))
      check_policy(job_, parsed_, file_, faults_);
  }

 private:
  void name() {
    if (safe_file_name(job_.name) && std::none_of(job_.name.begin(), job_.name.end(), [](unsigned char c) { return std::iscntrl(c); })) return;
    fault("name", show_name(job_.name) + " cannot name a folder",
          given("name") ? "use no /, no leading -, and not . or .." : "set name: the job file's own name cannot be used");
  }

  void adapter() {
    const AdapterConfig& adapter = job_.adapter;
    if (adapter.type == AdapterType::none) {
      for (const auto& [key, at] : parsed_.given)
        if (key.starts_with("adapter.") && key != "adapter.type")
          faults_.add(at, key, "has no effect: adapter.type is none",
                      "write adapter.type: lora, or remove it");
      return;
    }
    if (adapter.init_from) no_effect("adapter.init", "adapter.init_from gives the adapter's weights");
    if (!starts_from_data(adapter))
      for (const char* key : {"tau", "use_label_mask", "whiten"})
        no_effect(std::string("adapter.eva.") + key, "adapter.init is " + name_of(adapter.init), "write init: eva");
    std::vector<int64_t> layers = adapter.layers_to_transform;
    std::sort(layers.begin(), layers.end());
    auto twice = std::adjacent_find(layers.begin(), layers.end());
    if (twice != layers.end()) fault("adapter.layers_to_transform", std::to_string(*twice) + " appears twice");
  }

  void quantization() {
    const ModelConfig& model = job_.model;
    bool quantized = model.quantization != Quantization::none;
    if (quantized && job_.adapter.type == AdapterType::none)
      fault("model.quantization", name_of(model.quantization) + " weights cannot be trained themselves",
            "write adapter: lora");
    if (quantized && changes_base(job_.adapter))
      fault("adapter.init",
            name_of(job_.adapter.init) + " takes its factors out of the base weights, and " + name_of(model.quantization) +
                " blocks cannot be changed to match",
            "write init: default, or model.quantization: none");
    const bool loftq = job_.adapter.init == LoraInit::loftq && !job_.adapter.init_from;
    if (loftq && !quantized)
      fault("adapter.init", "loftq starts from the base's quantization error, and the base is not quantized", "write init: default, or model.quantization: nf4");
    if (loftq && job_.adapter.use_dora) fault("adapter.init", "loftq is defined only without magnitudes (use_dora)", "remove one of them");
    if (model.quantization == Quantization::fp8 && job_.adapter.use_dora)
      fault("adapter.use_dora", "DoRA needs the norms of weights that fp8 never decodes", "remove it, or write model.quantization: nf4");
    if (model.quantization == Quantization::fp8 && job_.objective.find<PolicyConfig>())
      fault("model.quantization",
            "fp8 rounds activations in training but not in drawing, so " + name_of(job_.objective.type()) +
                " would compare log-probabilities of two policies",
            "write nf4, int8 or none");
    bool has_scales = model.quantization == Quantization::nf4 || model.quantization == Quantization::fp4;
    if (model.fp8_tolerance != ModelConfig().fp8_tolerance && model.quantization != Quantization::fp8)
      fault("model.fp8_tolerance", "needs quantization fp8, is " + name_of(model.quantization));
    if (model.double_quantization && !has_scales)
      fault("model.double_quantization", "needs quantization nf4 or fp4, is " + name_of(model.quantization));
  }

  void start() {
    const ModelConfig& model = job_.model;
    if (model.init == ModelInit::file)
      return no_effect("model.architecture", "the weights are read from a file, and config.json describes them",
                       "write init: random, or remove it");
    if (job_.adapter.type != AdapterType::none)
      fault("model.init", "random weights cannot have an adapter", "write adapter: none");
  }

  void separated() {
    if (!job_.data.separator) return;
    if (job_.data.separator->empty())
      fault("data.separator", "is empty", "write the text that stands between documents, such as <|endoftext|>");
    if (job_.objective.type() != ObjectiveType::pretrain && job_.objective.type() != ObjectiveType::sft)
      fault("data.separator", "objective.type is " + name_of(job_.objective.type()) + ", whose rows are no texts", "remove it");
  }

  void joined() {
    if (!job_.data.join_documents) return;
    if (job_.objective.type() != ObjectiveType::pretrain)
      fault("data.join_documents", "objective.type is " + name_of(job_.objective.type()) + ", whose examples stay apart",
            "write objective: pretrain");
    no_effect("data.overlong", "data.join_documents cuts every max_length tokens");
  }

  // Returns the fault that every regex engine would report. The plan matches the regex against the
  // model's module names.
  static std::string regex_problem(const std::string& text) {
    std::string open;
    bool bracket = false;
    for (size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (c == '\\') {
        if (++i == text.size()) return "ends with a lone backslash";
      } else if (bracket) {
        bracket = c != ']';
      } else if (c == '[') {
        bracket = true;
        if (i + 1 < text.size() && text[i + 1] == '^') ++i;
        if (i + 1 < text.size() && text[i + 1] == ']') ++i;  // []…] holds a ]
      } else if (c == '(') {
        open += c;
      } else if (c == ')') {
        if (open.empty()) return "closes a ) that was not opened";
        open.pop_back();
      } else if ((c == '*' || c == '+') && (i == 0 || text[i - 1] == '(' || text[i - 1] == '|')) {
        return std::string("has nothing to repeat before ") + c;
      }
    }
    if (bracket) return "has an unclosed [";
    return open.empty() ? "" : "has an unclosed (";
  }
  void check_regex(const std::string& key, const std::string& text) {
    std::string problem = regex_problem(text);
    if (!problem.empty())
      fault(key, "the regex \"" + text + "\" " + problem,
            text.starts_with("*") ? "write ." + text + " for any beginning" : "");
  }
  void check_names(const std::string& key, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (name.find_first_of("*+?()[]{}|^$\\ ,") != std::string::npos)
        fault(key, "\"" + name + "\" is not a module name",
              "write a regex alone, not in a list; list names one by one");
  }
  // Checks a regex of modules. It must match the whole path of a module, so a bare name or a comma
  // list of names would match nothing.
  void check_module_regex(const std::string& key, const std::string& text) {
    std::string bare;
    for (char c : text)
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ',' || c == ' ') bare += c;
    if (bare != text) return check_regex(key, text);
    fault(key,
          "the text \"" + text + "\" is read as one regex, which matches no module's whole path",
          "write the names as a list: [" + join(words_of(text), ", ") + "]");
  }
  static std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    for (const std::string& part : split(text, ','))
      if (!trim(part).empty()) words.emplace_back(trim(part));
    return words;
  }
  void patterns() {
    const AdapterConfig& adapter = job_.adapter;
    // An adapter that was already trained keeps its sign.
    if (adapter.alpha <= 0 && !adapter.init_from)
      fault("adapter.alpha", format_number(adapter.alpha) + " is out of range, expected above 0");
    if (adapter.target_is_regex)
      check_module_regex("adapter.target_modules", adapter.target_modules.at(0));
    else if (adapter.target_modules != std::vector<std::string>{"all-linear"}) {
      check_names("adapter.target_modules", adapter.target_modules);
      for (const std::string& name : adapter.target_modules)
        if (name == "all-linear")
          fault("adapter.target_modules", "all-linear cannot be combined with other names");
    }
    if (adapter.exclude_is_regex)
      check_module_regex("adapter.exclude_modules", adapter.exclude_modules.at(0));
    else
      check_names("adapter.exclude_modules", adapter.exclude_modules);
    check_names("adapter.modules_to_save", adapter.modules_to_save);
    for (const auto& [pattern, rank] : adapter.rank_pattern) check_regex("adapter.rank_pattern", pattern);
    for (const auto& [pattern, alpha] : adapter.alpha_pattern) check_regex("adapter.alpha_pattern", pattern);
  }

  void batch() {
    const TrainConfig& train = job_.train;
    if (train.global_batch_size && train.global_batch_tokens)
      fault("train.global_batch_tokens", "train.global_batch_size is set too", "keep one of them");
    if (train.micro_batch_size && train.micro_batch_tokens)
      fault("train.micro_batch_tokens", "train.micro_batch_size is set too", "keep one of them");
    if (train.micro_batch_size && train.global_batch_size &&
        *train.micro_batch_size > *train.global_batch_size)
      fault("train.micro_batch_size", std::to_string(*train.micro_batch_size) +
                                          " is more than global_batch_size, " +
                                          std::to_string(*train.global_batch_size));
  }

  void objective() {
    const ObjectiveType type = job_.objective.type();
    keys_of_other_types(find_field("objective")->fields, "objective.", name_of(type));
    const auto* objective = job_.objective.find<LikelihoodConfig>();
    if (!objective) return job_.objective.find<PolicyConfig>() ? void() : preference();  // check_policy
    const bool all = objective->train_on == TrainOn::all;
    if (type == ObjectiveType::pretrain) {
      if (!all) no_effect("objective.train_on", "pretrain trains on every token");
      return;
    }
    each_source([&](const DataSource& source, const std::string& key) {
      const bool chat = source.format == RowFormat::messages || source.format == RowFormat::sharegpt;
      // Token rows may carry their own mask.
      if (source.format == RowFormat::text && !all)
        fault(key + "format", "text has no " + name_of(objective->train_on) + " to train on",
              "write objective: pretrain, or objective.train_on: all");
      if (chat && objective->train_on == TrainOn::completion)
        fault(key + "format", name_of(source.format) + " has no completion to train on",
              "completion needs prompt_completion or alpaca rows; for chats write train_on: assistant");
    });
  }

  void preference() {
    const ObjectiveConfig& objective = job_.objective;
    const auto *dpo = objective.find<DpoConfig>();
    const auto* referenced = objective.find<Referenced>();
    if (dpo && !takes_label_flip(dpo->loss))
      no_effect("objective.label_flip", "dpo's loss " + name_of(dpo->loss) + " takes labels as they are");
    if (dpo && dpo->loss == DpoLoss::exo_pair && dpo->label_flip == 0)
      fault("objective.label_flip", "exo_pair needs labels that are not certain, expected a share above 0",
            "write label_flip: 0.001");
    if (referenced && job_.adapter.type == AdapterType::none && referenced->reference == ReferenceModel::base)
      fault("objective.reference", "without an adapter every weight is trained, so the base is the model as it starts",
            "write reference: start, or remove it");
    if (objective.type() == ObjectiveType::kto && job_.train.global_batch_size == 1)
      fault("train.global_batch_size", "kto compares the answers of a step with each other's prompts, expected at least 2",
            "use 16 or more: the estimate is a mean over the step");
    if (objective.type() == ObjectiveType::reward)
      no_effect("eval.samples", "a reward model writes no answers");
    if (job_.data.overlong == Overlong::split)
      fault("data.overlong", "split would cut up answers, which " + name_of(objective.type()) + " compares whole",
            "use truncate, drop or error");
    no_effect("data.truncation_side", "a pair loses the beginning of its prompt, then the ends of its answers");
  }

  void check_columns(const DataSource& source, const std::string& key) {
    std::vector<std::string> fields = row_fields();
    fields.insert(fields.end(), turn_fields().begin(), turn_fields().end());
    for (const auto& [field, place] : source.columns)
      if (std::find(fields.begin(), fields.end(), field) == fields.end())
        fault(key + "columns",
              "\"" + field + "\" is not a field of a row" +
                  (field_alias(field).empty() ? did_you_mean(field, fields)
                                              : " (here it is " + field_alias(field) + ")"),
              "write forge's name first: {instruction: their_name}; the names are " + join(fields, ", "));
    for (const auto& [speaker, role] : source.roles)
      if (std::find(mapped_roles().begin(), mapped_roles().end(), role) == mapped_roles().end())
        fault(key + "roles", "\"" + role + "\" is not a role" + did_you_mean(role, mapped_roles()),
              "write the data's name first: {" + speaker + ": user}; the roles are " +
                  join(mapped_roles(), ", "));
  }
  void check_templates(const DataSource& source, const std::string& key) {
    for (const auto& [name, text] :
         {std::pair("prompt", source.prompt), std::pair("completion", source.completion)}) {
      std::string problem;
      if (text) parse_row_template(*text, problem);
      if (!problem.empty()) fault(key + name, problem);
    }
    if (!source.prompt && !source.completion) return;
    if (!source.completion)
      fault(key + "prompt", "needs completion as well", "write completion: \"{answer}\"");
    if (!source.prompt) fault(key + "completion", "needs prompt as well", "write prompt: \"{question}\"");
    if (source.format != RowFormat::automatic && source.format != RowFormat::prompt_completion)
      fault(key + "format",
            "prompt and completion make prompt_completion rows, not " + name_of(source.format),
            "leave format out");
    no_effect(key + "columns", "prompt and completion name the fields themselves");
    no_effect(key + "roles", "rows of prompt and completion have no speakers");
  }

  void data() {
    const DataConfig& data = job_.data;
    each_source([&](const DataSource& source, const std::string& key) {
      check_columns(source, key);
      check_templates(source, key);
    });
    for (size_t i = 0; i < data.eval.size(); ++i)
      no_effect("data.eval[" + std::to_string(i) + "].weight", "every row is evaluated once",
                "remove it; limit and skip choose rows");
    if (!data.eval.empty() && data.eval_fraction > 0)
      fault("data.eval_fraction", "data.eval is set too", "keep one of them");
    if (data.overlong != Overlong::truncate)
      no_effect("data.truncation_side", "data.overlong is " + name_of(data.overlong) + ", not truncate");
    const bool all =
        job_.objective.type() == ObjectiveType::pretrain || job_.objective.as<LikelihoodConfig>().train_on == TrainOn::all;
    for (const char* key : {"data.max_prompt_length", "data.max_completion_length"}) {
      if (all) no_effect(key, "everything is trained, so a row has no prompt", "set data.max_length");
      if (!all && data.overlong == Overlong::split)
        no_effect(key, "split cuts parts of data.max_length", "use truncate, drop or error");
    }
    if (data.group_by_length && !data.shuffle)
      fault("data.group_by_length", "changes the order that data.shuffle: false keeps", "keep one of them");
  }

  void evaluation() {
    if (!job_.data.eval.empty() || job_.data.eval_fraction > 0) return;
    const std::string why = "there is no evaluation data", hint = "set data.eval or data.eval_fraction";
    for (const char* key : {"eval.every_steps", "eval.at_start", "eval.early_stopping.patience"})
      no_effect(key, why, hint);
    if (job_.checkpoint.keep_best > 0) no_effect("checkpoint.keep_best", why, hint);
  }

  void optimizer() {
    const OptimizerConfig& optimizer = job_.optimizer;
    const std::string name = name_of(optimizer.type);
    const auto is = [&](std::initializer_list<OptimizerType> types) {
      return std::find(types.begin(), types.end(), optimizer.type) != types.end();
    };
    using enum OptimizerType;
    if (is({sgd})) no_effect("optimizer.betas", "sgd uses optimizer.momentum");
    if (is({adafactor})) no_effect("optimizer.betas", "adafactor has no first moment, and its second decays with the step number");
    if (is({adafactor})) no_effect("optimizer.momentum", "adafactor has no first moment");
    if (!is({sgd, muon, adafactor})) no_effect("optimizer.momentum", name + " uses optimizer.betas");
    if (is({sgd, lion})) no_effect("optimizer.eps", name + " does not use it");
    if (is({adafactor})) no_effect("optimizer.eps", "adafactor adds 1e-30 to squared gradients");
    if (is({schedule_free}) && optimizer.betas && (*optimizer.betas)[0] == 0)
      fault("optimizer.betas", "schedule_free needs a first beta above 0", "0.9 is usual");
  }

  void schedule() {
    const ScheduleConfig& schedule = job_.schedule;
    if (schedule.warmup_steps && given("schedule.warmup_ratio") && schedule.warmup_ratio > 0)
      fault("schedule.warmup_ratio", "schedule.warmup_steps is set too", "keep one of them");
    const auto only_of = [&](const char* key, ScheduleType type) {
      if (schedule.type != type)
        no_effect(key, "the schedule is " + name_of(schedule.type) + ", not " + name_of(type));
    };
    only_of("schedule.decay_ratio", ScheduleType::wsd);
    only_of("schedule.decay", ScheduleType::wsd);
    only_of("schedule.cycles", ScheduleType::cosine_with_restarts);
    only_of("schedule.power", ScheduleType::polynomial);
    if (schedule.type == ScheduleType::wsd && schedule.warmup_ratio + schedule.decay_ratio > 1)
      fault("schedule.decay_ratio", "warmup_ratio and decay_ratio together are more than 1");
    if (schedule.type == ScheduleType::constant)
      no_effect("schedule.min_lr_ratio", "the schedule is constant");
    if (schedule.type == ScheduleType::inverse_sqrt)
      no_effect("schedule.min_lr_ratio", "inverse_sqrt has no end to fall to");
    if (job_.optimizer.type == OptimizerType::schedule_free && schedule.type != ScheduleType::constant)
      fault(given("schedule.type") ? "schedule.type" : "optimizer.type",
            "schedule_free averages its weights instead of lowering the rate, and the schedule is " + name_of(schedule.type),
            "write schedule: constant; it may warm up");
  }

  void device() {
    const std::string& device = job_.hardware.device;
    bool numbered = device.starts_with("cuda:") && device.size() > 5 && device.size() < 9 &&
                    device.find_first_not_of("0123456789", 5) == std::string::npos;
    // A card's name is also allowed. The plan checks whether it exists.
    const bool named = device.starts_with("cuda:") && std::any_of(device.begin() + 5, device.end(), [](unsigned char c) {
                         return std::isalpha(c) != 0;
                       });
    if (device == "auto" || device == "cpu" || device == "cuda" || numbered || named) return;
    fault("hardware.device", "\"" + device + "\" is not auto, cpu, cuda, cuda:N or cuda:NAME",
          device == "gpu" ? "write cuda" : "");
  }

  // Refuses reward keys if the objective draws no completions.
  void rewards() {
    const std::string why = "objective.type " + name_of(job_.objective.type()) + " draws no completions to score";
    no_effect("rewards", why, "remove it; forge score --rewards JOB FILE tries rewards without training");
    for (const auto& [key, at] : parsed_.given)
      if (key.starts_with("reward_mix.") || key.starts_with("rollout.") || key == "eval.prompts")
        faults_.add(at, key, "has no effect: " + why, "remove it");
  }

  void allowances() {
    const std::vector<std::string>& known = find_field("allow")->choices;
    for (const std::string& word : job_.allow)
      if (std::find(known.begin(), known.end(), word) == known.end())
        fault("allow", "\"" + word + "\" is not something to allow" + did_you_mean(word, known),
              "known here: " + join(known, ", "));
  }
};

// True for a value that turns off what is off by default (0, false), and for no samples.
bool asks_for_nothing(const Parsed& parsed, const std::string& key) {
  if (!parsed.off.contains(key) || key.find('[') != std::string::npos) return false;
  const Json usual = value_of(Job{}, key);
  return key == "eval.samples" || usual == 0 || usual == false;
}

}  // namespace

void RuleFaults::fault(const std::string& key, std::string message, std::string hint) {
  const auto at = parsed_.given.find(key);
  faults_.add(at == parsed_.given.end() ? file_ : at->second, key, std::move(message), std::move(hint));
}

void RuleFaults::no_effect(const std::string& key, const std::string& why, const std::string& hint) {
  if (given(key) && !asks_for_nothing(parsed_, key)) fault(key, "has no effect: " + why, hint);
}

void RuleFaults::keys_of_other_types(const std::vector<Field>& fields, const std::string& prefix,
                                     const std::string& type) {
  for (const Field& field : fields) {
    const std::vector<std::string>& types = field.types;
    if (!field.fields.empty())
      keys_of_other_types(field.fields, prefix + field.key + ".", type);
    else if (!types.empty() && std::find(types.begin(), types.end(), type) == types.end())
      no_effect(prefix + field.key, "it belongs to " + alternatives(types) + ", not to " + type);
  }
}

void check_rules(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults) {
  Rules(job, parsed, file, faults).check();
}

}  // namespace forge

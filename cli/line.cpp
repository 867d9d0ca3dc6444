#include "cli/line.h"

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/io/model_file.h"
#include "core/plan/model_file.h"
#include "core/text/chat_template.h"
#include "providers/providers.h"

namespace forge {
namespace {

Origins origins_of(const LoadedJob& loaded) {
  Origins origins;
  for (const auto& [key, origin] : loaded.origins) origins[key] = {origin.source, ""};
  return origins;
}

std::string shown_name(Split split, const PrepareOptions& options) {
  if (!options.source_name.empty()) return "data";
  return split == Split::train ? "training data" : "evaluation data";
}

// Of each example; empty while only estimated.
std::vector<int64_t> supervised_counts(const Prepared& prepared) {
  std::vector<int64_t> counts;
  if (!prepared.data) return counts;
  for (int64_t i = 0; i < prepared.data->size(); ++i) counts.push_back(prepared.data->supervised(i));
  return counts;
}

// Names that tables of profiles, providers and templates decide.
std::map<std::string, std::vector<std::string>> choices() {
  std::vector<std::string> profile_names{"auto"}, provider_names{"auto"}, templates{"auto"};
  for (const Profile& profile : profiles()) profile_names.push_back(profile.name);
  for (const Provider& provider : providers()) provider_names.push_back(provider.name);
  for (const BundledTemplate& bundled : bundled_templates()) templates.emplace_back(bundled.name);
  return {{"hardware.profile", profile_names}, {"provider", provider_names}, {"data.template", templates}};
}

}  // namespace

Error with_places(const Error& error, const LoadedJob& loaded, const std::string& file) {
  std::vector<std::string> lines = split(error.what(), '\n');
  for (std::string& line : lines) {
    const std::string key = line.substr(0, line.find(':'));
    auto origin = loaded.origins.find(key);
    if (origin == loaded.origins.end()) origin = loaded.origins.find(key + "[0].path");
    if (origin == loaded.origins.end()) continue;
    const std::string& source = origin->second.source;
    const bool unwritten = starts_with(source, "default") || starts_with(source, "derived");
    line = (unwritten ? file + ":1:1" : source) + ": " + line;
  }
  return Error(error.kind(), join(lines, "\n")).hint(error.hint());
}

std::string token_cache_folder(const Job& job) { return job.output_dir + "/.cache/tokens"; }

Prepared prepare_split(const Job& job, Split split, const ModelText& text, Progress& progress,
                       PrepareOptions options) {
  options.cache_folder = token_cache_folder(job);
  options.embedding_rows = text.embedding_rows;
  const std::string name = shown_name(split, options);
  options.progress = [&](const PrepareProgress& now) {
    int64_t share = now.total_bytes > 0 ? 100 * now.bytes / now.total_bytes : 0;
    progress.status("tokenising the " + name + ": " + std::to_string(share) + " %, " +
                    format_count(now.rows) + " rows, " + format_count(now.tokens) + " tokens");
  };
  const ChatTemplate* chat_template = text.chat_template ? &*text.chat_template : nullptr;
  Prepared prepared = prepare_dataset(job, split, text.tokenizer, chat_template, options);
  progress.clear();
  return prepared;
}

PreparedData prepare_data(const Job& job, const ModelText& text, bool estimate, Progress& progress) {
  FileHashes file_hashes;
  PrepareOptions options{.file_hashes = &file_hashes};
  if (estimate) options.estimate_bytes = kEstimateBytes;
  PreparedData data{prepare_split(job, Split::train, text, progress, options), std::nullopt};
  if (has_eval_data(job)) data.eval = prepare_split(job, Split::eval, text, progress, options);
  return data;
}

Device pick_device(const Job& job, const std::optional<std::string>& gpu) {
  Hardware hardware = probe_hardware();
  return gpu ? device_by_name(hardware, *gpu) : choose_device(hardware, job.hardware);
}

LoadedJob read_job(const std::string& file, const std::vector<std::string>& sets) {
  return load_job(file, {.sets = sets, .choices = choices()});
}

void limit_length(LoadedJob& loaded, const ModelSpec& model) {
  int64_t& length = loaded.job.data.max_length;
  Origin& origin = loaded.origins["data.max_length"];
  if (origin.source != "default" || length <= model.max_position_embeddings ||
      model.rope.type == RopeType::dynamic)
    return;
  length = model.max_position_embeddings;
  origin.source = "derived: the model's max_position_embeddings";
}

namespace {

void plan_loaded(PlannedJob& line, const LineOptions& options, Progress& progress) {
  const Job& job = line.loaded.job;
  line.device = pick_device(job, options.gpu);
  line.profile = pick_profile(line.device, job.hardware);
  ModelSpec spec = read_model_spec(job.model.path);
  limit_length(line.loaded, spec);
  if (job.adapter.init_from && !file_exists(*job.adapter.init_from + "/adapter_config.json"))
    throw Error(ErrorKind::environment, *job.adapter.init_from + ": holds no adapter_config.json")
        .hint("adapter.init_from is a PEFT adapter folder");
  std::unique_ptr<TensorFile> weights =
      open_model(job.model.path, options.estimate ? Data::optional : Data::required);
  check_model_file(spec, *weights, job.model.path);
  ModelText text = open_model_text(job.model.path, template_choice(job));
  text.embedding_rows = spec.vocab_size;
  line.data = prepare_data(job, text, options.estimate, progress);

  PlanInput input;
  input.job = job;
  input.origins = origins_of(line.loaded);
  input.device = line.device;
  input.profile = line.profile;
  input.model = spec;
  input.model_hash = weights->header_hash();
  input.model_bytes = weights->file_bytes();
  input.train = line.data.train.summary;
  if (line.data.eval) input.eval = line.data.eval->summary;
  input.train_lengths = line.data.train.lengths;
  input.train_supervised = supervised_counts(line.data.train);
  if (line.data.eval) {
    input.eval_lengths = line.data.eval->data ? line.data.eval->lengths : std::vector<int64_t>{};
    input.eval_supervised = supervised_counts(*line.data.eval);
  }
  line.plan = make_plan(input);
}

}  // namespace

PlannedJob plan_job(const std::string& file, const LineOptions& options, Progress& progress) {
  PlannedJob line{.loaded = read_job(file, options.sets)};
  try {
    plan_loaded(line, options, progress);
  } catch (const Error& error) {
    throw with_places(error, line.loaded, file);
  }
  return line;
}

}  // namespace forge

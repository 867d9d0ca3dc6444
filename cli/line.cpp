#include "cli/line.h"

#include "cli/engine_location.h"
#include "cli/faults.h"
#include "cli/job_paths.h"
#include "core/data/report/report.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/lib/text/chat_template.h"
#include "core/model/families/adapter_folder.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/parameters.h"
#include "core/model/families/stored_file.h"
#include "core/plan/contradictions.h"
#include "core/plan/files/added_tokens.h"
#include "core/plan/files/judge_model.h"
#include "core/plan/files/model_file.h"
#include "core/plan/warnings.h"
#include "core/run/checkpoints.h"
#include "core/run/export/gguf_model.h"
#include "core/run/export_files.h"
#include "core/run/output_dir.h"
#include "core/run/run_folder.h"
#include "core/run/staging.h"
#include "providers/providers.h"

namespace forge {
namespace {

constexpr int64_t kShownBytes = int64_t{1} << 30;  // smaller files are read at once

std::string shown_source(const Origin& origin) {
  if (origin.kind == OriginKind::given) return origin.at.text();
  if (origin.kind == OriginKind::unset) return "default";
  return origin.kind == OriginKind::profile ? "profile" : "derived";
}

Origins origins_of(const LoadedJob& loaded) {
  Origins origins;
  for (const auto& [key, origin] : loaded.origins) origins[key] = {origin.kind, shown_source(origin), origin.reason};
  return origins;
}

// Throws KeyError(job) for a model with towers: a score head is put on a language model alone.
void refuse_towers_of_scores(const ModelSpec& model) {
  if (model.wrapper.empty()) return;
  throw KeyError(ErrorKind::job, "objective.type",
                 "reward puts a score head on a language model, and " + model.architecture + " also has towers",
                 "use a checkpoint of only the language model, of model_type " + model.family);
}

std::string shown_name(Split split, const PrepareOptions& options) {
  if (!options.source_name.empty()) return "data";
  return split == Split::train ? "training data" : "evaluation data";
}

// Returns the number of positions of each atom that the head reads: for scores the last one of each
// text, else the supervised ones. Empty while only estimated.
std::vector<int64_t> supervised_counts(const Prepared& prepared, bool scores) {
  std::vector<int64_t> counts;
  if (!prepared.data) return counts;
  for (int64_t i = 0; i < prepared.data->atoms(); ++i) {
    counts.push_back(0);
    for (int64_t example : prepared.data->examples_of(i))
      counts.back() += scores ? 1 : prepared.data->supervised(example);
  }
  return counts;
}

// Returns the names that the tables of profiles, providers and templates allow.
std::map<std::string, std::vector<std::string>> choices() {
  std::vector<std::string> profile_names{"auto"}, provider_names{"auto"}, templates{"auto"};
  for (const Profile& profile : profiles()) profile_names.push_back(profile.name);
  for (const Provider& provider : providers()) provider_names.push_back(provider.name);
  for (const BundledTemplate& bundled : bundled_templates()) templates.emplace_back(bundled.name);
  return {{"hardware.profile", profile_names}, {"provider", provider_names}, {"data.template", templates}};
}

// Returns the path of the stored findings; empty if a part of the data is only estimated.
std::string path_of_findings(const Job& job, const Prepared& train, const std::optional<Prepared>& eval) {
  std::vector<std::string> sources;
  for (const std::vector<DataSource>* list : {&job.data.train, &job.data.eval})
    for (const DataSource& source : *list) sources.push_back(source.path);
  if (!train.data || (eval && !eval->data)) return "";
  return findings_path(train.summary.cache_path, eval ? eval->summary.cache_path : "", sources);
}

// Looks for faults in the first kEstimateBytes of each split: tokens from a cache were not checked
// as this job has them.
DataFindings look_again(const Job& job, const ModelText& text, Progress& progress, FileHashes& file_hashes) {
  DataReport report(job);
  PrepareOptions options{
      .estimate_bytes = kEstimateBytes, .report = &report, .read_cached = true, .file_hashes = &file_hashes};
  bool whole = !prepare_split(job, Split::train, text, progress, options).summary.estimated;
  if (has_eval_data(job)) whole &= !prepare_split(job, Split::eval, text, progress, options).summary.estimated;
  report.finish();
  DataFindings findings = findings_of(report);
  if (!whole)
    findings.limits.push_back("the data were tokenised earlier: only their first " + format_count(report.rows()) +
                              " rows were checked for faults (forge data checks all)");
  return findings;
}

// Returns the device that the job asks for, if it can be used; or that of --gpu, with a warning if
// it cannot be used.
DeviceChoice pick_device(const Job& job, const std::optional<std::string>& gpu) {
  const Hardware hardware = probe_hardware();
  if (!gpu) return choose_device(hardware, job.hardware, fault_here);
  DeviceChoice choice{device_by_name(hardware, *gpu), "", ""};
  const Device& device = choice.device;
  if (!device.cuda || !device.gpu.probed) return choice;
  if (const CardFault fault = fault_here(device))
    choice.warning =
        "planned for the " + device.gpu.name + ", which cannot be used: " + fault.what;
  return choice;
}

// The inputs of a plan. If one cannot be read, the others still are, so that all faults are
// reported.
class PlanParts {
 public:
  PlanParts(PlannedJob& line, const LineOptions& options, Progress& progress)
      : line_(line), options_(options), progress_(progress) {}

  PlanInput read() {
    const bool machine = attempt([&] {
      DeviceChoice choice = pick_device(job(), options_.gpu);
      input_.device = std::move(choice.device);
      input_.device_warning = std::move(choice.warning), input_.idle_cards = std::move(choice.idle);
      input_.profile = pick_profile(input_.device, job().hardware);
    });
    const bool model = attempt([&] {
      require_model();
      input_.model = read_model_spec(job().model);
      input_.model_notes = config_notes(job().model);
      if (objective_of(job().objective.type()).scores) {
        refuse_towers_of_scores(input_.model);
        input_.model = with_score_head(input_.model);
      }
      add_job_tokens(line_.loaded, input_.model);
    });
    if (model) read_model(machine);
    // Without this condition a bad path or a broken file would be reported twice.
    const bool has_text = needs_text() && (model || is_directory(job().model.path)) &&
                          attempt([&] {
                            text_ = open_model_text(job().model.path, template_choice(job()));
                            input_.tokenizer_note = text_->tokenizer.class_note();
                            try_tokenizer_files();
                          });
    find_data();
    if (has_text && (train_there_ || eval_there_)) read_data();
    faults_.throw_if_any();
    return finish();
  }

 private:
  const Job& job() const { return line_.loaded.job; }
  // True if nothing will be run, so that files that do not exist yet may be assumed.
  bool plan_alone() const { return options_.estimate && !options_.hash_files; }
  Data weights_data() const { return options_.estimate ? Data::optional : Data::required; }

  // Writes the result's tokenizer files to a scratch folder if the job adds tokens or names a
  // template, so that faults appear before anything is trained.
  void try_tokenizer_files() const {
    if (job().model.add_tokens.empty() && job().data.template_name == "auto") return;
    const ScratchFolder scratch;
    write_tokenizer_files(job().model.path, template_choice(job()), scratch.path());
  }

  bool attempt(const std::function<void()>& work) {
    return faults_.attempt([&] {
      try {
        work();
      } catch (const Error& error) {
        throw with_places(error, line_.loaded, line_.file);
      }
    });
  }

  void read_model(bool machine) {
    limit_length(line_.loaded, input_.model);
    if (machine) attempt([&] { check_job(job(), input_.model, input_.device); });
    attempt([&] {
      check_start_adapter(job(), input_.model, weights_data());
      run_parameters(input_.model, job().adapter, job().model.quantization,
                     Experts::in_rows);  // throws if the model lacks something
    });
    if (job().model.init == ModelInit::random) return;
    if (plan_alone() && !has_weights(job().model.path)) {
      progress_.warn(job().model.path + ": holds no weights; the plan is made from config.json");
      return;
    }
    attempt([&] {
      const std::unique_ptr<TensorFile> weights = open_weights(input_.model, job().model.path, weights_data());
      check_model_file(input_.model, *weights, job().model.path);
      input_.model_hash = weights->header_hash();
      input_.model_bytes = weights->file_bytes();
    });
  }

  void read_data() {
    text_->model = example_model(input_.model);
    if (!attempt([&] { require_own_tokens(job(), *text_); })) return;
    FileHashes file_hashes;
    DataReport report(job());
    PrepareOptions options{.report = &report, .file_hashes = &file_hashes};
    // A sample is enough for an estimate, and to check the data if no plan can be made.
    if (options_.estimate || !faults_.empty()) options.estimate_bytes = kEstimateBytes;
    const bool train =
        train_there_ && attempt([&] { train_ = prepare_split(job(), Split::train, *text_, progress_, options); });
    if (!has_eval_data(job()) && train) return find_faults(report, file_hashes);
    if (!eval_there_ || !has_eval_data(job()) || (!train && job().data.eval.empty())) return;
    const bool eval = attempt([&] { eval_ = prepare_split(job(), Split::eval, *text_, progress_, options); });
    if (train && eval) find_faults(report, file_hashes);
  }

  void find_faults(DataReport& report, FileHashes& file_hashes) {
    if (!train_.from_cache && !(eval_ && eval_->from_cache)) {
      report.finish();
      line_.data_findings = findings_of(report);
      return keep_findings(job(), train_, eval_, line_.data_findings, progress_);
    }
    if (auto known = stored_findings(path_of_findings(job(), train_, eval_))) {
      line_.data_findings = *std::move(known);
      return;
    }
    attempt([&] {
      line_.data_findings = look_again(job(), *text_, progress_, file_hashes);
      keep_findings(job(), train_, eval_, line_.data_findings, progress_);
    });
  }

  void require_model() const {
    for (const MissingPath& missing : missing_paths(job()))
      if (missing.key == "model.path") refuse(ErrorKind::environment, missing);
  }

  // Reports missing data, which is useful to know even without a tokenizer.
  void find_data() {
    const bool assumes = may_assume();
    for (const MissingPath& missing : missing_data(job())) {
      const std::string meant = near_path_hint(missing.path);
      if (assumes)
        progress_.warn(missing.path + ": there is no such file or folder; the plan assumes rows " +
                       "of data.max_length" + (meant.empty() ? "" : "; " + meant));
      else
        attempt([&] { refuse(ErrorKind::data, missing); });
      (starts_with(missing.key, "data.eval") ? eval_there_ : train_there_) = false;
    }
    if (assumes && !train_there_) train_ = assumed(job());
    if (assumes && !eval_there_) eval_ = assumed(job());
  }

  // Returns rows of data.max_length in place of data that do not exist yet.
  static Prepared assumed(const Job& job) {
    constexpr int64_t kExamples = 1000;
    Prepared prepared;
    DataSummary& data = prepared.summary;
    data.format = "not there yet: " + format_count(kExamples) + " rows of data.max_length are assumed";
    data.rows = data.examples = kExamples;
    data.longest = job.data.max_length;
    data.tokens = data.supervised_tokens = kExamples * data.longest;
    data.estimated = true;
    prepared.lengths.assign(kExamples, data.longest);
    return prepared;
  }

  bool may_assume() const {
    return plan_alone() && faults_.empty() && objective_of(job().objective.type()).coupling == Coupling::token;
  }
  // Returns false if no row will be read.
  bool needs_text() const {
    bool train = true, eval = !job().data.eval.empty();
    for (const MissingPath& missing : missing_data(job())) (starts_with(missing.key, "data.eval") ? eval : train) = false;
    return !may_assume() || train || eval;
  }

  [[noreturn]] void refuse(ErrorKind kind, const MissingPath& missing) const {
    throw KeyError(kind, missing.key, missing.path + ": there is no such file or folder", missing_hint(line_.loaded, missing));
  }

  PlanInput finish() {
    input_.job = job();
    if (options_.hash_files) {
      KnownHashes hashes = known_hashes(job().output_dir, progress_);
      require_whole_starts(hashes);
      input_.start_files = start_files(job(), hashes);
      hashes.save();
      progress_.clear();
    }
    if (draws_completions(job().objective.type())) find_stops();
    if (options_.estimate && text_) line_.no_gguf = gguf_refusal();
    input_.origins = origins_of(line_.loaded);
    read_rates_of_machine();
    input_.providers = providers();
    input_.train = train_.summary;
    input_.train_lengths = train_.lengths;
    input_.train_supervised = supervised_counts(train_, input_.model.score_head);
    if (!eval_) return std::move(input_);
    input_.eval = eval_->summary;
    if (eval_->data) input_.eval_lengths = eval_->lengths;
    input_.eval_supervised = supervised_counts(*eval_, input_.model.score_head);
    return std::move(input_);
  }

  // A run may start from another one's checkpoint, which states the hashes of its files.
  void require_whole_starts(KnownHashes& hashes) const {
    require_whole_weights(job().model.path, &hashes);
    if (job().adapter.init_from) require_whole_weights(*job().adapter.init_from, &hashes);
    for (const JudgeModel& judge : judges_of(job()))
      for (const std::string& folder : {judge.model, judge.adapter}) require_whole_weights(folder, &hashes);
  }

  // Returns why `forge export --gguf` would refuse the result; empty if it would not.
  std::string gguf_refusal() const {
    const ScratchFolder scratch;
    const bool own = job().model.add_tokens.empty() && is_directory(job().model.path);
    try {
      refuse_joined_experts(adapter_sites(input_.model, job().adapter, Experts::in_rows),
                            "adapter");
      if (!own) write_tokenizer_files(job().model.path, template_choice(job()), scratch.path());
      const std::string& text = own ? job().model.path : scratch.path();
      require_gguf(merged_spec(input_.model, job().adapter), job().model.path, text, scratch.path());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  void find_stops() {
    input_.stop_ids = stop_ids(*text_, input_.model.eos_token_ids);
    for (const std::string& text : job().rollout.stop) text_->tokenizer.encode_ids(text, input_.stop_sequences.emplace_back());
  }

  void read_rates_of_machine() {
    const int64_t threads = job().train.threads.value_or(input_.device.cpu.cores);
    std::string warning;
    input_.rates = read_rates(rates_path(job().output_dir), machine_of(input_.device, threads), &warning);
    if (!warning.empty()) progress_.warn(warning);
  }

  PlannedJob& line_;
  const LineOptions& options_;
  Progress& progress_;
  FaultCollector faults_;
  PlanInput input_;
  std::optional<ModelText> text_;
  Prepared train_;
  std::optional<Prepared> eval_;  // nothing when the job has no evaluation data
  bool train_there_ = true, eval_there_ = true;
};

}  // namespace

KeyError with_places(const Error& error, const LoadedJob& loaded, const std::string& file) {
  const auto* keyed = dynamic_cast<const KeyError*>(&error);
  std::vector<KeyFault> faults = keyed ? keyed->faults() : std::vector<KeyFault>{{"", error.what(), {}}};
  for (KeyFault& fault : faults)
    if (!fault.key.empty() && fault.place.file.empty()) fault.place = place_of(loaded, fault.key, file);
  return KeyError(error.kind(), std::move(faults), error.hint());
}

KnownHashes known_hashes(const std::string& output_dir, Progress& progress) {
  KnownHashes hashes(output_dir + "/.cache/hashes.json");
  hashes.shown = [&progress](const std::string& path) { return progress.without_secrets(path); };
  hashes.on_read = [&progress](const std::string& file, int64_t bytes) {
    if (bytes >= kShownBytes)
      progress.status("reading " + file + " (" + format_bytes(bytes) + ") to recognise it later");
  };
  return hashes;
}

Prepared prepare_split(const Job& job, Split split, const ModelText& text, Progress& progress,
                       PrepareOptions options) {
  remove_output_litter(job.output_dir);
  options.cache_folder = job.output_dir + "/.cache/tokens";
  options.model = text.model;
  options.shown = [&progress](const std::string& path) { return progress.without_secrets(path); };
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

void keep_findings(const Job& job, const Prepared& train, const std::optional<Prepared>& eval, DataFindings findings,
                   const Progress& progress) {
  const std::string path = path_of_findings(job, train, eval);
  if (path.empty()) return;
  for (DataFinding& finding : findings.found)
    for (std::string* text : {&finding.place, &finding.detail}) *text = progress.without_secrets(*text);
  store_findings(findings, path);
}

LoadedJob read_job(const std::string& file, const std::vector<std::string>& sets) {
  if (is_directory(file)) {
    const bool run = file_exists(RunPaths{file}.plan());
    throw Error(ErrorKind::job, file + ": is a folder, expected a job file")
        .hint(run ? "continue the run with the job file that it was started with; forge eval, generate and chat take the folder"
                  : "forge init writes a job to start from");
  }
  LoadedJob loaded = load_job(file, {.sets = sets, .choices = choices()});
  inherit_adapter(loaded);
  train_score_head(loaded);
  return loaded;
}

void limit_length(LoadedJob& loaded, const ModelSpec& model) {
  int64_t& length = loaded.job.data.max_length;
  Origin& origin = loaded.origins["data.max_length"];
  if (origin.kind != OriginKind::unset || length <= model.max_position_embeddings) return;
  if (model.rope.type == RopeType::dynamic || model.reads_source()) return;
  length = model.max_position_embeddings;
  const bool indexed = model.index_topk > 0 && length == model.index_topk;
  origin = {OriginKind::derived, {},
            indexed ? "the model's index_topk" : "the model's max_position_embeddings"};
}

void add_job_tokens(LoadedJob& loaded, ModelSpec& model) {
  if (loaded.job.model.add_tokens.empty() && loaded.job.model.add_tokens_from.empty()) return;
  const TemplateChoice with = template_choice(loaded.job);
  TemplateChoice without = with;
  without.added_tokens.clear();
  const std::string& path = loaded.job.model.path;
  add_tokens(loaded, open_model_text(path, without).tokenizer, open_model_text(path, with).tokenizer, model);
}

PlannedJob plan_job(const std::string& file, const LineOptions& options, Progress& progress) {
  PlannedJob line{.file = file, .loaded = read_job(file, options.sets)};
  progress.hide(line.loaded.secrets);
  try {
    const PlanInput input = PlanParts(line, options, progress).read();
    try {
      line.plan = make_plan(input);
      for (std::string& warning : data_warnings(line.plan, line.data_findings)) line.plan.warnings.push_back(std::move(warning));
      if (line.no_gguf.value_or("") != "")
        line.plan.warnings.push_back("the result cannot be written as a GGUF: " + *line.no_gguf);
    } catch (const Error& error) {
      throw with_places(error, line.loaded, file);
    }
  } catch (const Error& error) {
    if (line.loaded.secrets.empty()) throw;
    throw hide_secrets(error, line.loaded.secrets);
  }
  return line;
}

}  // namespace forge

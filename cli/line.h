#pragma once
// The line of a job up to its plan. Every command that takes a job is a prefix of it.
//
//   Progress progress(args.json(), args.quiet());
//   PlannedJob planned = plan_job("job.yaml", {.sets = args.texts("--set")}, progress);
//   planned.plan.predicted_peak_bytes
#include <optional>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "core/base/key_error.h"
#include "core/config/load.h"
#include "core/data/prepare.h"
#include "core/data/report/findings.h"
#include "core/plan/plan.h"
#include "core/run/model_text.h"

namespace forge {

struct LineOptions {
  std::vector<std::string> sets;
  std::optional<std::string> gpu;  // plan for this card instead of the job's device
  bool hash_files = false;  // of model and adapter.init_from: to know them again when the run continues
  bool estimate = false;    // without a cache, tokenise a sample and scale up; require no weights' data and, without
                            // hash_files (set by runs), neither weights nor data
};

struct PreparedData {
  Prepared train;
  std::optional<Prepared> eval;  // nothing when the job has no evaluation data
};

struct PlannedJob {
  std::string file;  // as given
  LoadedJob loaded;
  Device device;
  Profile profile;
  PreparedData data;
  DataFindings data_findings;
  std::optional<std::string> no_gguf;  // why the result cannot be exported to one; empty: it can; nothing: not asked
  Plan plan;
};

// The job's files, with the names in them that tables decide: profiles, providers, templates. Throws JobErrors.
LoadedJob read_job(const std::string& file, const std::vector<std::string>& sets);
// A data.max_length that the job does not state is at most what the model knows.
void limit_length(LoadedJob& loaded, const ModelSpec& model);

// Room for model.add_tokens in the spec, and what an adapter trains of it (core/plan/files/added_tokens.h).
void add_job_tokens(LoadedJob& loaded, ModelSpec& model);
// The faults of a KeyError with the places of their keys in the job's files; a key that stands nowhere is the main
// file's. Any other error is one fault without a place.
KeyError with_places(const Error& error, const LoadedJob& loaded, const std::string& file);
PlannedJob plan_job(const std::string& file, const LineOptions& options, Progress& progress);

// Folder of the job's token caches, shared by all runs in one output_dir.
std::string token_cache_folder(const Job& job);
// Hashes of large files, kept beside the token caches; those of which nothing is known yet are read, with a status.
KnownHashes known_hashes(const std::string& output_dir, Progress& progress);
// One split as tokens, or both, with progress. `options` without cache_folder and progress, which are set here.
Prepared prepare_split(const Job& job, Split split, const ModelText& text, Progress& progress,
                       PrepareOptions options = {});
PreparedData prepare_data(const Job& job, const ModelText& text, bool estimate, Progress& progress);
// Keeps what was found in the data for later plans and runs, where all of it is tokenised.
void keep_findings(const Job& job, const Prepared& train, const std::optional<Prepared>& eval,
                   const DataFindings& findings);
// The device that the job asks for, and can be used; or that of --gpu, with a warning if it cannot.
DeviceChoice pick_device(const Job& job, const std::optional<std::string>& gpu);

}  // namespace forge

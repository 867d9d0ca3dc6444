#pragma once
// The line of a job up to its plan. Every command that takes a job runs a prefix of it.
//
//   Progress progress(args.json(), args.quiet());
//   PlannedJob planned = plan_job("job.yaml", {.sets = args.texts("--set")}, progress);
//   planned.plan.predicted_peak_bytes
#include <optional>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "core/data/prepare.h"
#include "core/data/report/findings.h"
#include "core/job/load.h"
#include "core/lib/base/key_error.h"
#include "core/plan/plan.h"
#include "core/run/model_text.h"

namespace forge {

struct LineOptions {
  std::vector<std::string> sets;
  std::optional<std::string> gpu;  // plan for this card instead of the job's device
  bool hash_files = false;  // of model and adapter.init_from: to know them again when the run continues
  // Without a cache, tokenises a sample and scales up. Requires no weights' data and, without
  // hash_files (which runs set), neither weights nor data.
  bool estimate = false;
};

struct PlannedJob {
  std::string file;  // as given
  LoadedJob loaded;
  DataFindings data_findings;
  std::optional<std::string> no_gguf;  // why the result cannot be exported to one; empty: it can; nothing: not asked
  Plan plan;
};

// Reads the job's files and checks the names in them that tables decide: profiles, providers,
// templates. Throws JobErrors.
LoadedJob read_job(const std::string& file, const std::vector<std::string>& sets);
// Limits a data.max_length that the job does not state to what the model knows.
void limit_length(LoadedJob& loaded, const ModelSpec& model);

// Makes room for model.add_tokens in the spec, and adds what an adapter trains of it
// (core/plan/files/added_tokens.h).
void add_job_tokens(LoadedJob& loaded, ModelSpec& model);
// Returns the faults of a KeyError with the places of their keys in the job's files. A key that is
// in none of them is placed in the main file. Any other error is one fault without a place.
KeyError with_places(const Error& error, const LoadedJob& loaded, const std::string& file);
PlannedJob plan_job(const std::string& file, const LineOptions& options, Progress& progress);

// Returns the hashes of large files that are kept beside the token caches. Files of which nothing
// is known yet are read, with a status.
KnownHashes known_hashes(const std::string& output_dir, Progress& progress);
// Tokenises one split, with progress. `options` comes without cache_folder and progress, which are
// set here: all runs in one output_dir share the token caches.
Prepared prepare_split(const Job& job, Split split, const ModelText& text, Progress& progress,
                       PrepareOptions options = {});
// Stores what was found in the data for later plans and runs, if all of it is tokenised; without
// secrets in the paths that it names.
void keep_findings(const Job& job, const Prepared& train, const std::optional<Prepared>& eval, DataFindings findings,
                   const Progress& progress);

}  // namespace forge

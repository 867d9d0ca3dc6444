#pragma once
// Reads a job from its files.
//
//   LoadedJob loaded = load_job("job.yaml", {.sets = {"train.epochs=2"}});
//   loaded.job.train.epochs;                       // 2
//   loaded.origins["train.epochs"].at.text();      // "--set train.epochs=2"
//   loaded.origins["adapter.rank"].at.text();      // "job.yaml:9:9" or "base.yaml:3:9"; .kind tells of defaults
//
// Only job files are read: no model, no data. Precedence: default < extends < job < --set; `auto`
// is left to the plan.
#include <map>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/job/layers.h"
#include "core/job/origin.h"

namespace forge {

struct LoadOptions {
  std::vector<std::string> sets;  // "key.path=value", the value in YAML
  std::string cwd;                // absolute; empty: the process's
  Environment environment;        // empty: the process's
  // For commands that need only the rewards: other sections are ignored, and `rewards` is required.
  bool rewards_only = false;
  // Choices that tables beyond this folder hold, by key: {"provider", {"auto", "fused",
  // "reference"}}.
  std::map<std::string, std::vector<std::string>> choices;
};

struct LoadedJob {
  Job job;
  std::map<std::string, Origin>
      origins;                     // every leaf's dotted key; lists of sources also as data.train[0].path
  std::string text;                // the job file as given
  std::vector<std::string> files;  // every file that was read
  std::vector<Secret> secrets;     // never to be printed: see hide_secrets
};

// Throws JobErrors with every fault of all files and options (exit code 3), Error(job) if the file
// cannot be read.
LoadedJob load_job(const std::string& path, const LoadOptions& options = {});

// True if a value of data.template is a file rather than the name of a bundled template.
bool names_a_template_file(const std::string& name);

// Returns `text` with every secret of the job replaced by "***".
std::string hide_secrets(std::string text, const LoadedJob& loaded);

}  // namespace forge

// forge fetch: downloads a model or data of the Hugging Face hub into the cache that transformers
// shares. It is the only command that opens a connection.

#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/progress.h"
#include "core/job/load.h"
#include "core/job/secrets.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/hub/hub_fetch.h"

namespace forge::fetch_command {
namespace {

constexpr Option kOptions[] = {
    {"--revision", "NAME", "branch, tag or commit (default main)"},
    {"--dataset", "", "treat ORG/NAME as a dataset"},
    {"--include", "PATTERN",
     "download only files that match, such as *.gguf (default: the files that forge reads)", true},
    {"--set", "KEY=VALUE", "change a value of the job", true},
    {"--offline", "", "open no connection; only check for a local copy"},
};

struct Wanted {
  HubRepository repository;
  FetchWishes wishes;
};

bool is_job(const std::string& operand) {
  return std::filesystem::is_regular_file(operand) || ends_with(operand, ".yaml") || ends_with(operand, ".yml") || ends_with(operand, ".json");
}

// Returns the file or pattern that a job names below its snapshot.
FetchWishes inside(const HubCache& cache, const HubRepository& repository, const std::string& path) {
  const std::string below = std::filesystem::path(path).lexically_relative(std::filesystem::absolute(cache.snapshot(repository)).lexically_normal()).string();
  if (below.empty() || below == "." || starts_with(below, "..")) return {};
  return {{below}};
}

// Adds a request: two sources of one repository are one.
void add(std::vector<Wanted>& all, Wanted one) {
  for (Wanted& other : all) {
    const HubRepository &a = other.repository, &b = one.repository;
    if (a.kind != b.kind || a.name != b.name || a.revision != b.revision) continue;
    const bool everything = other.wishes.include.empty() || one.wishes.include.empty();
    if (everything) other.wishes.include.clear();
    else other.wishes.include.insert(other.wishes.include.end(), one.wishes.include.begin(), one.wishes.include.end());
    return;
  }
  all.push_back(std::move(one));
}

std::vector<Wanted> of_job(const LoadedJob& loaded, const HubCache& cache) {
  std::vector<Wanted> all;
  const auto take = [&](HubKind kind, const std::optional<std::string>& name, const std::optional<std::string>& revision,
                        const std::string& path) {
    if (!name) return;
    HubRepository repository{kind, *name};
    if (revision) repository.revision = *revision;
    add(all, {repository, inside(cache, repository, path)});
  };
  const Job& job = loaded.job;
  take(HubKind::model, job.model.repo, job.model.revision, job.model.path);
  for (const std::vector<DataSource>* sources : {&job.data.train, &job.data.eval})
    for (const DataSource& source : *sources) take(HubKind::dataset, source.repo, source.revision, source.path);
  return all;
}

std::vector<Wanted> wanted(const Arguments& args, const HubCache& cache) {
  std::vector<Wanted> all;
  for (const std::string& operand : args.operands()) {
    if (is_job(operand)) {
      std::vector<Wanted> named = of_job(load_job(operand, {.sets = args.texts("--set")}), cache);
      if (named.empty())
        throw Error(ErrorKind::job, operand + ": refers to nothing on the hub").hint("a job does so with model.repo or data.train[].repo");
      for (Wanted& one : named) add(all, std::move(one));
      continue;
    }
    HubRepository repository{args.has("--dataset") ? HubKind::dataset : HubKind::model, operand};
    if (!is_hub_name(operand))
      throw Error(ErrorKind::usage, operand + ": is neither a job file nor a repository's name").hint("forge fetch org/name, or forge fetch job.yaml");
    repository.revision = args.text("--revision").value_or("main");
    if (!is_hub_revision(repository.revision)) throw Error(ErrorKind::usage, "--revision " + repository.revision + ": is not a branch, a tag or a commit");
    add(all, {repository, {args.texts("--include")}});
  }
  return all;
}

bool stays_offline(const Arguments& args, const Environment& environment) {
  const std::string set = lower(environment("HF_HUB_OFFLINE").value_or(""));
  return args.has("--offline") || set == "1" || set == "true" || set == "yes" || set == "on";
}

Json to_json(const FetchedRepository& fetched) {
  return {{"repo", fetched.repository.name},
          {"kind", fetched.repository.kind == HubKind::model ? "model" : "dataset"},
          {"revision", fetched.repository.revision},
          {"commit", fetched.commit},
          {"folder", fetched.folder},
          {"files", fetched.files},
          {"bytes", fetched.bytes},
          {"downloaded", fetched.downloaded}};
}

FetchedRepository found_here(const HubCache& cache, const HubRepository& repository, bool by_option) {
  const std::string commit = cache.commit(repository);
  if (commit.empty())
    throw Error(ErrorKind::environment, repository.name + ": revision " + repository.revision + " is not in " + cache.root() + ", and no connection may be opened")
        .hint(by_option ? "run forge fetch without --offline where there is a network" : "run forge fetch where there is a network, without HF_HUB_OFFLINE");
  return {repository, commit, cache.snapshot(repository)};
}

int run(const Arguments& args) {
  Progress progress(false, args.quiet() || args.json());
  const Environment environment = process_environment();
  const HubCache cache(environment);
  const std::vector<Wanted> all = wanted(args, cache);
  const bool offline = stays_offline(args, environment);
  HubServer server = hub_server(environment);
  server.say = [&](const std::string& text) { progress.line(text); };
  Json results = Json::array();
  for (const Wanted& one : all) {
    const std::string& name = one.repository.name;
    const FetchProgress shown{[&](const std::string& file, int64_t done, int64_t total) {
      progress.status(fmt::format("fetching {}  {}  {} of {}", name, file, format_bytes(done), format_bytes(total)));
    }};
    const FetchedRepository fetched = offline ? found_here(cache, one.repository, args.has("--offline")) : fetch(server, cache, one.repository, one.wishes, shown);
    progress.clear();
    results.push_back(to_json(fetched));
    if (args.json()) continue;
    if (offline)
      print(fetched.folder + "\n");
    else
      print(fmt::format("{}\n  {} {} at {}: {} files, {}, of which {} downloaded\n", fetched.folder, name, fetched.repository.revision,
                        fetched.commit.substr(0, 12), format_count(fetched.files), format_bytes(fetched.bytes), format_bytes(fetched.downloaded)));
  }
  if (args.json()) print_json({{"repositories", results}});
  return 0;
}

}  // namespace

constexpr Command kCommand{
    "fetch", "JOB|ORG/NAME…", 1, 16,
    "download models and datasets from the Hugging Face hub into its cache",
    kOptions, run};

}  // namespace forge::fetch_command

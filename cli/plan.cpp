// forge plan: shows what would happen, without loading a weight.
#include <malloc.h>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/line.h"
#include "core/lib/base/printable.h"
#include "core/plan/explain.h"
#include "core/run/export/gguf_metadata.h"
#include "providers/gpu_speed.h"
#include "providers/providers.h"

namespace forge::plan_command {
namespace {

constexpr Option kOptions[] = {
    {"--gpu", "NAME", "plan for this card (\"RTX 4070\") or for cpu, instead of this machine"},
    {"--set", "KEY=VALUE", "change a value, as in --set train.epochs=2", true},
    {"--all", "", "also show plain default values"},
    {"--graph", "",
     "show the step instead: every op with its inputs and outputs, arithmetic and memory"},
};

std::string gguf_line(const ModelSpec& model) {
  const std::string window = ignored_window(model);
  return "\nforge export can write the result as a GGUF" + (window.empty() ? "" : "; " + window) + "\n";
}

// Makes the allocator keep what is freed. A search makes and frees lists of thousands of ops dozens
// of times, and by default their memory goes back to the system and is mapped anew each time: 7 %
// of the time of a 70B's plan.
void keep_freed_memory() {
#ifdef M_TRIM_THRESHOLD
  constexpr int kKept = 64 << 20;
  ::mallopt(M_TRIM_THRESHOLD, kKept);
  ::mallopt(M_MMAP_THRESHOLD, kKept);
#endif
}

int run(const Arguments& args) {
  keep_freed_memory();
  Progress progress(false, args.quiet() || args.json());
  LineOptions options{.sets = args.texts("--set"), .gpu = args.text("--gpu"), .estimate = true};
  PlannedJob line = plan_job(args.operands()[0], options, progress);
  if (args.has("--graph"))
    print(explain_step(line.plan, provider_named(line.plan.provider)));
  else if (args.json())
    print(hide_secrets(to_json(line.plan), line.loaded.secrets).dump(2) + "\n");
  else
    print(printable(hide_secrets(explain(line.plan, args.has("--all")), line.loaded)) +
          (line.no_gguf == "" ? gguf_line(line.plan.model) : "") +
          speed_line(line.plan, provider_named(line.plan.provider)));
  return 0;
}

}  // namespace

constexpr Command kCommand{
    "plan", "JOB", 1, 1,
    "show a run's plan: values with reasons, memory, steps, disk",
    kOptions, run};

}  // namespace forge::plan_command

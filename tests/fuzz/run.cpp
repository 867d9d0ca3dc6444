// Fuzzes files of a run folder that somebody edited: report.json, from which the page is made
// again, metrics, amendments, the plan and a rollout's completions.
#include <filesystem>

#include "core/lib/base/file.h"
#include "core/run/host/shown_rollout.h"
#include "core/run/report.h"
#include "core/run/run_folder.h"
#include "tests/fuzz/target.h"

using namespace forge;

namespace {

// A folder with a whole plan, in which the input is one of the files.
class RunUnderTest {
 public:
  RunUnderTest() : folder_("/dev/shm/forge-fuzz-run-" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(std::string(FORGE_SOURCE_DIR) + "/tests/run/goldens/older/plan.json", paths().plan(),
                               std::filesystem::copy_options::overwrite_existing);
    plan_ = read_file(paths().plan(), 1 << 20, ErrorKind::environment);
  }
  ~RunUnderTest() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RunUnderTest(const RunUnderTest&) = delete;
  RunPaths paths() const { return {folder_}; }

  // Inspects the run while `path` holds `content`, then takes it away, or puts the plan back.
  void inspect_with(const std::string& path, std::string_view content) {
    write(path, content);
    read_or_refuse([&] { inspect_run(folder_); });
    if (path == paths().plan())
      write(path, plan_);
    else
      unlink(path.c_str());
  }
  static void write(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(content.data(), static_cast<std::streamsize>(content.size()));
  }

 private:
  const std::string folder_;
  std::string plan_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static RunUnderTest run;
  const std::string_view content = text_of(data, size);
  for (const std::string& path : {run.paths().report(), run.paths().amendments(), run.paths().plan()}) run.inspect_with(path, content);
  RunUnderTest::write(run.paths().metrics(), content);
  RunMetrics metrics;
  read_or_refuse([&] {
    std::string fault;
    metrics = read_metrics(run.paths().metrics(), &fault);
    report_html(Json::object(), metrics);
  });
  unlink(run.paths().metrics().c_str());
  const std::string rollout = run.paths().folder + "/rollout-000000.jsonl";
  RunUnderTest::write(rollout, content);
  read_or_refuse([&] {
    for (const ShownCompletion& completion : read_shown_rollout(rollout)) shown_text(completion);
  });
  unlink(rollout.c_str());
  read_or_refuse([&] { report_html(parse_json(content, "report.json", ErrorKind::environment), metrics); });
  return 0;
}

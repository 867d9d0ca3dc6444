#include <signal.h>

#include <ctime>

#include "cli/engine_end.h"
#include "cli/engine_process.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns the status that waitpid gives for an exit code.
int exited(int code) { return code << 8; }

EngineProcess::OnEvent ignore() {
  return [](const Json&) {};
}

// Returns an engine that is a shell script.
EngineLocation script(const TemporaryFolder& folder, const std::string& body) {
  std::string path = folder.write("engine", "#!/bin/sh\n" + body);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return {path, "", "2.11.0", {}};
}

constexpr const char* kHello =
    R"(echo '{"event":"hello","protocol":1,"torch":"2.11.0","device":"cpu","threads":1,"pid":1}';)";

ErrorKind kind_of(const EngineEnd& end) { return explain_end(end).kind(); }

}  // namespace

TEST_CASE("Every end of an engine without an error event has its kind") {
  CHECK(kind_of({SIGKILL, "", true, 0}) == ErrorKind::fit);
  CHECK(kind_of({SIGKILL, "", false, 0}) == ErrorKind::environment);
  CHECK(kind_of({SIGKILL, "", false, 2}) == ErrorKind::interrupted);
  CHECK(kind_of({SIGSEGV, "", false, 0}) == ErrorKind::internal);
  CHECK(kind_of({SIGABRT, "", false, 0}) == ErrorKind::internal);
  CHECK(kind_of({SIGBUS, "", false, 0}) == ErrorKind::environment);
  CHECK(kind_of({SIGILL, "", false, 0}) == ErrorKind::environment);
  for (int number : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU})
    CHECK(kind_of({number, "", false, 0}) == ErrorKind::interrupted);
  CHECK(kind_of({SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'", false, 0}) ==
        ErrorKind::fit);
  CHECK(kind_of({exited(130), "", false, 0}) == ErrorKind::interrupted);
  CHECK(kind_of({exited(1), "libgomp: Thread creation failed: Resource temporarily unavailable", false, 0}) ==
        ErrorKind::environment);
  CHECK(kind_of({exited(0), "", false, 0}) == ErrorKind::internal);
  CHECK(kind_of({exited(75), "", false, 0}) == ErrorKind::stopped);
  CHECK(kind_of({exited(1), "", false, 0}) == ErrorKind::internal);
  CHECK(kind_of({exited(127), "x: error while loading shared libraries: liba.so: not there", false, 0}) ==
        ErrorKind::environment);
  CHECK(kind_of({exited(1), "x: /lib/libc.so.6: version `GLIBC_2.99' not found (required by x)", false, 0}) ==
        ErrorKind::environment);
  CHECK(kind_of({exited(127), "x: symbol lookup error: x: undefined symbol: _ZN", false, 0}) ==
        ErrorKind::environment);
}

TEST_CASE("The last lines of stderr stand below the message") {
  std::string text = explain_end({SIGABRT, "one\n\ntwo\n", false, 0}).what();
  CHECK(text == "the engine crashed (SIGABRT)\n  | one\n  | two");
}

TEST_CASE("Events arrive in order and done is returned") {
  TemporaryFolder folder;
  EngineProcess engine(script(folder, std::string("read line;") + kHello +
                                          "echo \"{\\\"event\\\":\\\"notice\\\",\\\"request\\\":$line}\";"
                                          "echo '{\"event\":\"done\",\"answer\":42}'"),
                       {});
  std::vector<std::string> names;
  Json done = engine.request({{"command", "x"}}, [&](const Json& event) { names.push_back(event["event"]); });
  CHECK(done["answer"] == 42);
  CHECK(names == std::vector<std::string>{"hello", "notice", "done"});
}

TEST_CASE("A request and events larger than a pipe's buffer pass") {
  TemporaryFolder folder;
  // stderr and stdout fill up before the request is read: without serving all three pipes at once
  // this hangs.
  EngineProcess engine(
      script(folder, std::string(kHello) +
                         "head -c 300000 /dev/zero | tr '\\0' 'e' >&2;"
                         "printf '{\"event\":\"notice\",\"text\":\"';"
                         "head -c 300000 /dev/zero | tr '\\0' 'x'; echo '\"}';"
                         "echo \"{\\\"event\\\":\\\"done\\\",\\\"bytes\\\":$(head -n 1 | wc -c)}\""),
      {});
  size_t text = 0;
  Json done = engine.request({{"text", std::string(500000, 'r')}}, [&](const Json& event) {
    if (event.contains("text")) text = event["text"].get<std::string>().size();
  });
  CHECK(text == 300000);
  CHECK(done["bytes"] == 500012);
}

// A long line takes time proportional to its length in both directions, however many pieces it
// comes in.
TEST_CASE("A long request and a long event take no more than their share of time") {
  TemporaryFolder folder;
  const auto seconds_of = [&](int64_t mebibytes) {
    const std::string bytes = std::to_string(mebibytes << 20);
    EngineProcess engine(
        script(folder, std::string("head -n 1 > /dev/null;") + kHello +
                           "printf '{\"event\":\"notice\",\"text\":\"'; head -c " + bytes +
                           " /dev/zero | tr '\\0' 'x'; echo '\"}'; echo '{\"event\":\"done\"}'"),
        {});
    const std::clock_t begin = std::clock();
    engine.request({{"text", std::string(static_cast<size_t>(mebibytes) << 20, 'r')}}, ignore());
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double small = seconds_of(6), large = seconds_of(60);
  INFO(small << " s and " << large << " s");
  CHECK(large < 25 * small);  // ten times as much
}

TEST_CASE("An event without end is refused") {
  TemporaryFolder folder;
  EngineProcess engine(script(folder, std::string("read line;") + kHello + "cat /dev/zero | tr '\\0' 'x'"),
                       {});
  CHECK_THAT(error_of([&] { engine.request(Json::object(), ignore()); }),
             Catch::Contains("an event of more than 64.0 MiB"));
}

TEST_CASE("The engine's own error is passed on with its kind and hint") {
  TemporaryFolder folder;
  EngineProcess engine(
      script(folder, std::string("read line;") + kHello +
                         R"(echo '{"event":"error","kind":"data","message":"m","hint":"h"}'; exit 6)"),
      {});
  try {
    engine.request(Json::object(), ignore());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    CHECK(std::string(error.what()) == "m");
    CHECK(error.hint() == "h");
  }
}

TEST_CASE("An engine that dies while a child of it holds the pipes is found") {
  TemporaryFolder folder;
  EngineProcess engine(script(folder, std::string("read line;") + kHello + "sleep 30 & kill -9 $$"), {});
  CHECK(error_of([&] { engine.request(Json::object(), ignore()); }).find("the engine was killed (SIGKILL)") ==
        0);
}

TEST_CASE("A signal reaches the engine; the second ends one that is deaf within seconds") {
  TemporaryFolder folder;
  EngineProcess engine(
      script(folder, std::string("trap '' TERM; read line;") + kHello + "while :; do sleep 0.1; done"), {});
  auto start = std::chrono::steady_clock::now();
  int notices = 0;
  std::string message = error_of([&] {
    engine.request({{"command", "train"}}, [&](const Json& event) {
      if (event["event"] == "notice") ++notices;
      if (event["event"] == "hello" || notices == 1) raise(SIGTERM);
    });
  });
  CHECK(message == "interrupted before a checkpoint could be written");
  CHECK(notices == 2);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(4));
}

TEST_CASE("The engine's environment holds threads and libraries") {
  auto variables =
      engine_environment({"/e", "/t", "2.11.0", {"/t/torch/lib", "/t/nvidia/a/lib"}}, {.threads = 3});
  CHECK(variables["OMP_NUM_THREADS"] == "3");
  CHECK(variables["MKL_NUM_THREADS"] == "3");
  CHECK(variables["OMP_DYNAMIC"] == "false");
  CHECK(variables["LD_LIBRARY_PATH"].find("/t/torch/lib:/t/nvidia/a/lib") == 0);
}

TEST_CASE("Waiting threads spin for a short time, unless the user says how they wait") {
  const EngineLocation location{"/e", "/t", "2.11.0", {}};
  CHECK(engine_environment(location, {}).at("GOMP_SPINCOUNT") == "3000");
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    ::setenv(name, "active", 1);
    CHECK_FALSE(engine_environment(location, {}).count("GOMP_SPINCOUNT"));
    ::unsetenv(name);
  }
}

#include "cli/command.h"

#include <fstream>

#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

constexpr Option kOptions[] = {
    {"--gpu", "NAME", "a card"},
    {"--set", "KEY=VALUE", "a change", true},
    {"--fresh", "", "anew"},
};
constexpr Command kCommand{"plan", "JOB", 1, 1, "what would happen", kOptions, nullptr};

Arguments parse(const std::vector<std::string>& words) { return *parse_arguments(kCommand, words); }

}  // namespace

TEST_CASE("Options and operands may come in any order, with blanks or =") {
  Arguments args = parse({"--set", "a=1", "job.yaml", "--gpu=RTX 4070", "--set=b=2=3", "--fresh"});
  CHECK(args.operands() == std::vector<std::string>{"job.yaml"});
  CHECK(args.text("--gpu") == "RTX 4070");
  CHECK(args.texts("--set") == std::vector<std::string>{"a=1", "b=2=3"});
  CHECK(args.has("--fresh"));
  CHECK(!args.json());
}

TEST_CASE("Faults of a command line are named") {
  CHECK(error_of([] { parse({"job.yaml", "--gpus", "x"}); }) ==
        "forge plan: unknown option --gpus (did you mean \"--gpu\"?)");
  CHECK(error_of([] { parse({}); }) == "forge plan: expected JOB, got nothing");
  CHECK(error_of([] { parse({"a", "b"}); }) == "forge plan: unexpected argument \"b\"");
  CHECK(error_of([] { parse({"a", "--gpu", "x", "--gpu", "y"}); }) == "forge plan: --gpu is given twice");
  CHECK(error_of([] { parse({"a", "--gpu"}); }).find("--gpu") != std::string::npos);
}

TEST_CASE("Options of another trainer have a counterpart or a reason, by full name and last component") {
  const auto answer = [](const std::vector<std::string>& words) {
    try {
      parse(words);
    } catch (const Error& error) {
      const bool owned = ends_with(error.what(), "has it)") || ends_with(error.what(), "have it)");
      return owned ? std::string(error.what()) : error.hint();
    }
    return std::string("no error");
  };
  const std::string rate = "change a value of the job with --set optimizer.learning_rate=VALUE";
  for (const char* option : {"--lr", "--actor.adam.lr", "--actor_learning_rate", "--nobody.knows.lr", "--learning-rate"})
    CHECK(answer({"job.yaml", option, "1e-4"}) == rate);
  CHECK_THAT(answer({"job.yaml", "--best_of_n=4"}), Catch::StartsWith("best_of_n has no counterpart yet: "));
  CHECK_THAT(answer({"job.yaml", "--colocate_all_models"}), Catch::StartsWith("colocate_all_models has no counterpart: "));
  CHECK_THAT(answer({"job.yaml", "--lr_scheduler", "cosine_with_min_lr"}), Catch::EndsWith("--set schedule.type=VALUE"));
  std::ifstream flags(std::string(FORGE_SOURCE_DIR) + "/tests/config/openrlhf_flags.txt");
  int64_t count = 0;
  for (std::string flag; std::getline(flags, flag);) {
    if (flag.empty() || flag[0] == '#') continue;
    ++count;
    for (const std::string& name : {flag, flag.substr(flag.rfind('.') + 1)}) {
      INFO(name);
      CHECK_THAT(answer({"job.yaml", "--" + name}), !Catch::StartsWith("see forge"));
    }
  }
  CHECK(count > 360);
}

TEST_CASE("A line break is refused in names and kept in texts") {
  CHECK(error_of([] { parse({"a\nb.yaml"}); }) == "forge plan: \"a\\x0ab.yaml\": a line break in a name, expected none");
  CHECK(error_of([] { parse({"a", "--gpu", "x\ry"}); }) == "forge plan: --gpu \"x\\x0dy\": a line break in a name, expected none");
  CHECK(error_of([] { parse({"a", "b\nc"}); }) == "forge plan: unexpected argument \"b\\x0ac\"");
  CHECK(parse({"a", "--set", "x=1\n2"}).texts("--set")[0] == "x=1\n2");
}

TEST_CASE("Help is asked for with -h and --help, also without operands") {
  CHECK(!parse_arguments(kCommand, {"--help"}));
  CHECK(!parse_arguments(kCommand, {"-h"}));
  CHECK(help_text(kCommand).find("--set KEY=VALUE…  a change") != std::string::npos);
}

TEST_CASE("Numbers are read whole and held to their range") {
  CHECK(parse({"j", "--gpu", "12"}).integer("--gpu", 1, 0, 100) == 12);
  CHECK(parse({"j"}).integer("--gpu", 1, 0, 100) == 1);
  CHECK(parse({"j", "--gpu", "0.5"}).number("--gpu", 1, 0, 2) == 0.5);
  for (const char* word : {"12x", "101", "-1", "1.5", "", "99999999999999999999"})
    CHECK(error_of([&] { parse({"j", "--gpu", word}).integer("--gpu", 1, 0, 100); }) ==
          "--gpu " + std::string(word) + ": expected a whole number from 0 to 100");
  for (const char* word : {"nan", "3", "x"})
    CHECK(error_of([&] { parse({"j", "--gpu", word}).number("--gpu", 1, 0, 2); }) ==
          "--gpu " + std::string(word) + ": expected a number from 0 to 2");
}

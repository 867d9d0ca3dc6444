#include "cli/generation.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns the text that passes the stops, piece by piece.
std::string through(std::vector<std::string> stops, const std::vector<std::string>& pieces, bool* met = nullptr) {
  StopTexts stream(std::move(stops));
  std::string text;
  for (const std::string& piece : pieces) text += stream.push(piece);
  text += stream.finish();
  if (met) *met = stream.met();
  return text;
}

}  // namespace

TEST_CASE("a text ends before the first stop, wherever pieces are cut") {
  bool met = false;
  CHECK(through({"END"}, {"one E", "N", "D two"}, &met) == "one ");
  CHECK(met);
  CHECK(through({"END"}, {"one E", "N", "GINE"}, &met) == "one ENGINE");
  CHECK_FALSE(met);
  CHECK(through({"END"}, {"one EN"}) == "one EN");
  CHECK(through({"EEND"}, {"E", "E", "E", "N", "D"}) == "E");
  CHECK(through({"later", "at"}, {"l", "a", "t", "e", "r"}) == "l");
  CHECK(through({}, {"a", "", "b"}) == "ab");
}

TEST_CASE("what cannot become a stop is shown at once") {
  StopTexts stream({"\nUser:"});
  CHECK(stream.push("hello") == "hello");
  CHECK(stream.push("\n") == "");
  CHECK(stream.push("Us") == "");
  CHECK(stream.push("age") == "\nUsage");
}

#include "core/lib/base/text.h"

#include "core/lib/base/printable.h"
#include "core/lib/base/typo.h"
#include "tests/test.h"

using namespace forge;

TEST_CASE("nearest finds a typing mistake and refuses a stranger") {
  std::vector<std::string> names{"learning_rate", "rank", "alpha", "epochs"};
  CHECK(nearest("learing_rate", names) == "learning_rate");
  CHECK(nearest("rnak", names) == "rank");
  CHECK(nearest("quantum", names).empty());
  // Comparing letter by letter would take minutes.
  CHECK(nearest(std::string(400'000, 'a'), {std::string(600'000, 'a')}).empty());
  CHECK(did_you_mean("alhpa", names) == " (did you mean \"alpha\"?)");
}

TEST_CASE("only a likely misspelling is guessed") {
  const std::vector<std::string> names{"train", "model", "max_length", "weight_decay", "warmup_ratio", "nf4", "betas"};
  CHECK(likely_meant("trian", names) == "train");
  CHECK(likely_meant("Model", names) == "model");
  CHECK(likely_meant("max_lenght", names) == "max_length");
  CHECK(likely_meant("wieght_decya", names) == "weight_decay");
  CHECK(likely_meant("warmup_ration", names) == "warmup_ratio");
  // Another short word, another number, or too far for so short a name.
  for (const char* stranger : {"min_length", "nf8", "strain_x", "mo", "bets_on", "warmup_steps", ""}) {
    INFO(stranger);
    CHECK(likely_meant(stranger, names).empty());
  }
}

TEST_CASE("units read as people write them") {
  CHECK(format_seconds(59.7) == "1 min 0 s");
  CHECK(format_seconds(3599.8) == "1 h 0 min");
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(int64_t{5} << 40) == "5.0 TiB");
  CHECK(format_count(41943040) == "41,943,040");
  CHECK(format_count(-1234) == "-1,234");
  CHECK(format_count(999) == "999");
  CHECK(format_seconds(75.2) == "1 min 15 s");
  CHECK(format_number(2e-4) == "0.0002");
  CHECK(format_number(1e-5) == "1e-05");
}

TEST_CASE("a table's columns align by characters, not by bytes") {
  CHECK(format_table({{"JOB…", "x", ""}, {"RUN", "yy", "z"}}) == "JOB…  x\nRUN   yy  z\n");
}

TEST_CASE("valid_utf8 names the first bad byte") {
  size_t bad = 0;
  CHECK(valid_utf8("plain \xC3\xA9 \xF0\x9F\x98\x80"));
  CHECK_FALSE(valid_utf8("ab\xC0\x80", &bad));
  CHECK(bad == 2);
  CHECK_FALSE(valid_utf8("\xED\xA0\x80"));      // a surrogate
  CHECK_FALSE(valid_utf8("\xF4\x90\x80\x80"));  // past U+10FFFF
  CHECK_FALSE(valid_utf8("abc\xE2\x82", &bad));  // cut short
  CHECK(bad == 3);
}

TEST_CASE("what others wrote drives no terminal and ends no line") {
  CHECK(printable("a\tb\nc ü") == "a\tb\nc ü");
  CHECK(printable("a\x1b[2J\r\x7f\u0085") == "a\\x1b[2J\\x0d\\x7f\\x85");
  CHECK(printable("invoice\u202Efdp.exe \u2066x\u2069 \u2028") == "invoice\\u202efdp.exe \\u2066x\\u2069 \\u2028");
  CHECK(printable("“…” \u2065\u206A\u2027\u202F") == "“…” \u2065\u206A\u2027\u202F");
  CHECK(show_name("a\nb\tc") == "\"a\\x0ab\\x09c\"");
  CHECK(show_name("\xff\n\u202E") == "\"\\xff\\x0a\\xe2\\x80\\xae\"");
  CHECK(show_name(std::string(79, 'a') + "üb") == "\"" + std::string(79, 'a') + "…\"");
}

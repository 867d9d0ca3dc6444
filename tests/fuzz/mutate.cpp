#include "tests/fuzz/mutate.h"

#include <cstring>
#include <iterator>
#include <string_view>

namespace forge {
namespace {

// Building blocks of the formats, and numbers at the limits of types.
constexpr std::string_view kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"",
                                        "'",
                                        ":",
                                        ",",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        " ",
                                        "\\",
                                        "\\u0000",
                                        "\\ud800",
                                        "null",
                                        "true",
                                        "-",
                                        "0",
                                        "1e999",
                                        "-1",
                                        "2147483648",
                                        "4294967296",
                                        "9223372036854775807",
                                        "18446744073709551616",
                                        "1e-5",
                                        "nan",
                                        "{{",
                                        "}}",
                                        "{%",
                                        "%}",
                                        "{#",
                                        "#}",
                                        "|",
                                        "&a",
                                        "*a",
                                        "---",
                                        "!!x",
                                        "- ",
                                        "? ",
                                        "<<",
                                        "${",
                                        "\xFF",
                                        "\xC3\xA9",
                                        "\xEF\xBB\xBF",
                                        "\xF0\x9F\x98\x80",
                                        "\xE2\x96\x81",
                                        "(",
                                        ")",
                                        ".",
                                        "+",
                                        "*",
                                        "\\p{L}"};

void overwrite_number(std::string& input, size_t at, Random& random) {
  constexpr uint64_t kNumbers[] = {0,   1,          255,        1u << 15,   1u << 31,
                                   ~0u, 1ull << 32, 1ull << 62, ~0ull >> 1, ~0ull};
  const uint64_t number = kNumbers[random(std::size(kNumbers))] + random(3) - 1;
  const size_t width = size_t{1} << random(4);
  if (at + width <= input.size()) std::memcpy(input.data() + at, &number, width);
}

// Returns a part of a text: mostly short, occasionally as long as possible.
std::string part_of(const std::string& text, Random& random) {
  return text.substr(random(text.size() + 1), 1 + random(random(4) ? 32 : text.size()));
}

}  // namespace

void mutate(std::string& input, const std::vector<std::string>& corpus, Random& random) {
  const size_t at = random(input.size() + 1);
  switch (random(8)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(random(256));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random(8)));
      break;
    case 2:
      input.erase(at, part_of(input, random).size());
      break;
    case 3:
      input.insert(at, kPieces[random(std::size(kPieces))]);
      break;
    case 4:
      overwrite_number(input, at, random);
      break;
    case 5: {
      const std::string part = part_of(input, random);
      for (uint64_t n = random(4) ? 1 : random(300); n > 0 && input.size() < kLongestInput; --n)
        input.insert(at, part);
      break;
    }
    default: {
      const std::string part = part_of(corpus[random(corpus.size())], random);
      if (random(2)) input.erase(at, part.size());
      input.insert(at, part);
    }
  }
  if (input.size() > kLongestInput) input.resize(kLongestInput);
}

}  // namespace forge

#pragma once
// Reads the cards of STUB_CARDS, for both stub libraries.
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace stub {

struct Card {
  std::string name;
  int capability = 0;
  size_t gib = 0, free_gib = 0;
};

inline std::string text(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value ? value : otherwise;
}
inline long number(const char* variable, long otherwise) {
  const std::string value = text(variable, "");
  return value.empty() ? otherwise : std::stol(value);
}

inline const std::vector<Card>& cards() {
  static const std::vector<Card> all = [] {
    std::vector<Card> list;
    std::istringstream rows(text("STUB_CARDS", ""));
    for (std::string row; std::getline(rows, row, ';');) {
      std::istringstream fields(row);
      std::string field[4];
      for (std::string& value : field) std::getline(fields, value, '|');
      list.push_back({field[0], std::stoi(field[1]), std::stoul(field[2]), std::stoul(field[3])});
    }
    return list;
  }();
  return all;
}

}  // namespace stub

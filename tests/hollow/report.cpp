#include "tests/hollow/report.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace forge::hollow {
namespace {

struct Graph {
  int64_t kernels, products, copies;
};

struct Report {
  std::mutex mutex;
  bool written = false;
  std::map<std::string, int64_t> counts;
  std::map<std::string, std::map<int, int64_t>> by_card;
  std::map<int, int64_t> peak_bytes;
  std::vector<std::string> violations;
  std::vector<Graph> graphs;
};

// Returns the report, which is never destroyed: the process may end while threads still work.
Report& report() {
  static auto* const instance = new Report;
  return *instance;
}

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return json + '"';
}

// Returns {"key": value, …}.
template <class Map, class Key, class Value>
std::string object(const Map& map, Key key, Value value) {
  std::string json;
  for (const auto& [k, v] : map)
    json += (json.empty() ? "" : ", ") + quoted(key(k)) + ": " + value(v);
  return '{' + json + '}';
}
template <class List, class Value>
std::string list(const List& values, Value value) {
  std::string json;
  for (const auto& v : values) json += (json.empty() ? "" : ", ") + value(v);
  return '[' + json + ']';
}

const auto as_is = [](const std::string& text) { return text; };
const auto number = [](int64_t value) { return std::to_string(value); };

std::string json_of(const Report& r) {
  char program[4096] = "";
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) program[0] = '\0';
  const auto graph = [](const Graph& g) {
    return "{\"kernels\": " + number(g.kernels) + ", \"products\": " + number(g.products) +
           ", \"copies\": " + number(g.copies) + '}';
  };
  return "{\"program\": " + quoted(program) + ", \"violations\": " + list(r.violations, quoted) +
         ", \"peak_bytes\": " + object(r.peak_bytes, number, number) + ", \"by_card\": " +
         object(r.by_card, as_is, [](const auto& cards) { return object(cards, number, number); }) +
         ", \"graphs\": " + list(r.graphs, graph) +
         ", \"counts\": " + object(r.counts, as_is, number) + "}\n";
}

}  // namespace

void count(const std::string& what, int64_t times) {
  Report& r = report();
  const std::lock_guard lock(r.mutex);
  r.counts[what] += times;
}
void count_on_card(const char* what, int card) {
  Report& r = report();
  const std::lock_guard lock(r.mutex);
  ++r.by_card[what][card];
}
void violation(const std::string& what) {
  std::fprintf(stderr, "hollow GPU: %s\n", what.c_str());
  Report& r = report();
  const std::lock_guard lock(r.mutex);
  r.violations.push_back(what);
}
void captured(int64_t kernels, int64_t products, int64_t copies) {
  Report& r = report();
  const std::lock_guard lock(r.mutex);
  r.graphs.push_back({kernels, products, copies});
}
void holds(int card, int64_t bytes) {
  Report& r = report();
  const std::lock_guard lock(r.mutex);
  int64_t& peak = r.peak_bytes[card];
  if (bytes > peak) peak = bytes;
}

void write_report() {
  Report& r = report();
  const std::lock_guard lock(r.mutex);
  const char* file = std::getenv("FORGE_HOLLOW_REPORT");
  if (r.written || !file || (r.counts.empty() && r.violations.empty())) return;
  r.written = true;
  if (FILE* out = std::fopen(file, "a")) {
    const std::string text = json_of(r);
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
  }
}

}  // namespace forge::hollow

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/faults.h"
#include "core/lib/io/json.h"
#include "core/lib/io/safetensors.h"
#include "core/lib/io/safetensors_types.h"

namespace forge {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation
// A tensor costs about ten JSON values; the largest mixtures of experts have some 60,000 tensors.
constexpr JsonLimits kHeaderLimits{4, 4'000'000};

struct Entry {
  TensorInfo info;
  int64_t begin = 0, end = 0;  // relative to the data
};

[[noreturn]] void fail(const std::string& name, const std::string& what, const std::string& hint = "") {
  throw Error(ErrorKind::environment, name + ": " + what).hint(hint);
}

// Returns the JSON text of the header; everything before it is checked here.
std::string_view header_text(std::string_view file, const std::string& name) {
  refuse_git_lfs(file, name, ErrorKind::environment);
  const std::string kNotOne = "not a safetensors file: ";
  const auto size = static_cast<int64_t>(file.size());
  if (size < kLengthBytes)
    fail(name,
         kNotOne + "it has " + std::to_string(size) + " bytes, expected at least 8 for the header's length");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kLongestHeader)
    fail(name,
         kNotOne + "its header would have " + std::to_string(length) + " bytes, the limit is 100,000,000");
  if (length > static_cast<uint64_t>(size - kLengthBytes))
    fail(name,
         "the header has " + std::to_string(length) + " bytes, but only " +
             std::to_string(size - kLengthBytes) + " follow its length",
         "the file is cut off: copy or download it again");
  std::string_view text = file.substr(kLengthBytes, static_cast<size_t>(length));
  if (text.empty() || text[0] != '{') fail(name, kNotOne + "its header does not begin with '{'");
  return text;
}

// Reads a non-negative integer that fits int64_t.
bool size_of(const Json& json, int64_t* value) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > INT64_MAX) return false;
  *value = json.get<int64_t>();
  return true;
}

std::string read_dtype(const Json& tensor, DType* dtype) {
  const auto value = tensor.find("dtype");
  if (value == tensor.end() || !value->is_string()) return "dtype is missing or not a string";
  const auto& text = value->get_ref<const std::string&>();
  std::vector<std::string> known;
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.name == text) {
      *dtype = type.dtype;
      return "";
    }
    known.emplace_back(type.name);
  }
  return "dtype " + show_name(text) + " is not supported, expected one of " + join(known, ", ");
}

std::string read_shape(const Json& tensor, std::vector<int64_t>* shape) {
  const auto value = tensor.find("shape");
  if (value == tensor.end() || !value->is_array()) return "shape is missing or not a list";
  for (const Json& element : *value) {
    int64_t size = 0;
    if (!size_of(element, &size))
      return "shape holds " + show_name(dump_json(element)) + ", expected sizes from 0";
    shape->push_back(size);
  }
  return "";
}

std::string read_offsets(const Json& tensor, int64_t* begin, int64_t* end) {
  const auto value = tensor.find("data_offsets");
  if (value == tensor.end() || !value->is_array() || value->size() != 2 || !size_of((*value)[0], begin) ||
      !size_of((*value)[1], end))
    return "data_offsets is missing or not two offsets [begin, end]";
  return "";
}

// Returns the fault if shape, dtype and data_offsets disagree; empty when they agree.
std::string check_bytes(const Entry& entry) {
  const std::string shape = std::string(name_of(entry.info.dtype)) + " " + format_shape(entry.info.shape);
  int64_t bytes = 1;
  for (int64_t size : entry.info.shape)
    if (!multiply_checked(&bytes, size)) return shape + " has more elements than 64 bits can count";
  if (!multiply_checked(&bytes, block_bytes(entry.info.dtype)))
    return shape + " has more bytes than 64 bits can count";
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    return "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "] span " +
           std::to_string(entry.end - entry.begin) + " bytes, but " + shape + " has " + std::to_string(bytes);
  return "";
}

std::string read_tensor(const Json& json, Entry* entry) {
  if (!json.is_object()) return "expected an object with dtype, shape and data_offsets";
  for (std::string problem : {read_dtype(json, &entry->info.dtype), read_shape(json, &entry->info.shape),
                              read_offsets(json, &entry->begin, &entry->end)})
    if (!problem.empty()) return problem;
  return check_bytes(*entry);
}

void read_metadata(const Json& json, Faults& faults, std::map<std::string, std::string>* metadata) {
  if (json.is_null()) return;  // the reference implementation treats it as absent
  if (!json.is_object()) return faults.add("__metadata__ is not an object of strings");
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (!item->is_string()) {
      faults.add("__metadata__ " + show_name(item.key()) + " is not a string");
    } else {
      (*metadata)[item.key()] = item->get<std::string>();
    }
  }
}

// Checks that offsets follow each other from 0: neither overlap (one buffer for ten million
// tensors) nor hole (another file hidden inside).
void check_order(const std::vector<Entry>& entries, Faults& faults) {
  int64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected)
      faults.add("tensor " + show_name(entry.info.name) + ": begins at " + std::to_string(entry.begin) +
                 ", expected " + std::to_string(expected) +
                 (entry.begin < expected ? " (it overlaps the one before)" : " (a hole)"));
    expected = std::max(expected, entry.end);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& name) {
  std::string_view text = header_text(file, name);
  Json json = parse_json(text, name + " (header)", ErrorKind::environment, kHeaderLimits);
  if (!json.is_object()) fail(name, "the header is not an object");
  SafetensorsHeader header;
  header.hash = hash_hex(text);
  Faults faults(name);
  std::vector<Entry> entries;
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (item.key() == "__metadata__") {
      read_metadata(item.value(), faults, &header.metadata);
      continue;
    }
    Entry& entry = entries.emplace_back();
    entry.info.name = item.key();
    std::string problem = read_tensor(item.value(), &entry);
    if (!problem.empty()) faults.add("tensor " + show_name(item.key()) + ": " + problem);
  }
  faults.raise(ErrorKind::environment);
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_order(entries, faults);
  faults.raise(ErrorKind::environment);
  const int64_t data = kLengthBytes + static_cast<int64_t>(text.size());
  const int64_t data_bytes = entries.empty() ? 0 : entries.back().end;
  if (data_bytes > INT64_MAX - data) fail(name, "the tensors end past 2^63 bytes");
  header.file_bytes = data + data_bytes;
  for (Entry& entry : entries) {
    header.begins.push_back(data + entry.begin);
    header.tensors.push_back(std::move(entry.info));
  }
  return header;
}

}  // namespace forge

#include "core/job/diagnostics.h"

#include <algorithm>
#include <tuple>

#include "core/lib/base/printable.h"

namespace forge {
namespace {

// Returns `text` with every occurrence of `secret` replaced by "***".
std::string redact(std::string text, const std::string& secret) {
  if (secret.empty()) return text;
  for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + 3))
    text.replace(at, secret.size(), "***");
  return text;
}

std::string lines_of(const std::vector<Diagnostic>& faults) {
  std::string text;
  for (const Diagnostic& fault : faults) text += (text.empty() ? "" : "\n") + fault.text();
  return text;
}

}  // namespace

std::string Diagnostic::text() const {
  std::string result = at.text() + ": ";
  if (!key.empty()) result += one_line(key) + ": ";
  result += message;
  if (!hint.empty()) result += " (" + hint + ")";
  return result;
}

JobErrors::JobErrors(std::vector<Diagnostic> faults)
    : Error(ErrorKind::job, lines_of(faults)), faults_(std::move(faults)) {}

void Diagnostics::add(const Position& at, std::string key, std::string message, std::string hint) {
  if (full())
    ++untold_;
  else
    faults_.push_back({at, std::move(key), std::move(message), std::move(hint)});
}

void Diagnostics::add(const JobErrors& errors) {
  for (const Diagnostic& fault : errors.faults())
    add(fault.at, fault.key, fault.message, fault.hint);
}

bool Diagnostics::concern(const std::string& section) const {
  return std::any_of(faults_.begin(), faults_.end(), [&](const Diagnostic& fault) {
    return fault.key.empty() || fault.key == section || fault.key.starts_with(section + ".") ||
           fault.key.starts_with(section + "[");
  });
}

void Diagnostics::hide(const std::string& secret) {
  for (Diagnostic& fault : faults_)
    for (std::string* text : {&fault.at.file, &fault.message, &fault.hint})
      *text = redact(std::move(*text), secret);
}

void Diagnostics::throw_if_any() const {
  if (faults_.empty()) return;
  // The order is that of the files as they were read, and within a file from top to bottom.
  std::vector<std::string> files;
  for (const Diagnostic& fault : faults_)
    if (std::find(files.begin(), files.end(), fault.at.file) == files.end())
      files.push_back(fault.at.file);
  auto rank = [&](const Diagnostic& fault) {
    auto file = std::find(files.begin(), files.end(), fault.at.file) - files.begin();
    return std::tuple(file, fault.at.line, fault.at.column);
  };
  std::vector<Diagnostic> sorted = faults_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return rank(a) < rank(b); });
  if (untold_ > 0)
    sorted.push_back({{files.front()}, "", "and " + std::to_string(untold_) + " more faults", ""});
  throw JobErrors(std::move(sorted));
}

}  // namespace forge

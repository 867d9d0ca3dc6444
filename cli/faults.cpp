#include "cli/faults.h"

#include "core/job/diagnostics.h"
#include "core/job/secrets.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

std::string indented_hint(const Error& error) {
  std::string text;
  if (error.hint().empty()) return text;
  for (const std::string& line : split(error.hint(), '\n')) text += "\n  " + line;
  return text;
}

}  // namespace

std::vector<Fault> faults_of(const Error& error) {
  if (const auto* several = dynamic_cast<const FaultError*>(&error)) return several->faults();
  std::vector<Fault> faults;
  if (const auto* job = dynamic_cast<const JobErrors*>(&error))
    for (const Diagnostic& fault : job->faults())
      faults.push_back({error.kind(), fault.at, fault.key, fault.message, fault.hint});
  else if (const auto* keyed = dynamic_cast<const KeyError*>(&error))
    for (const KeyFault& fault : keyed->faults())
      faults.push_back({error.kind(), fault.place, fault.key, fault.message, error.hint()});
  else
    faults.push_back({error.kind(), {}, "", error.what(), error.hint()});
  return faults;
}

Json to_json(const Fault& fault) {
  return {{"kind", name_of(fault.kind)}, {"file", fault.at.file}, {"line", fault.at.line},
          {"column", fault.at.column},   {"key", fault.key},      {"message", fault.message},
          {"hint", fault.hint}};
}

bool FaultCollector::attempt(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal || error.kind() == ErrorKind::interrupted) throw;
    errors_.push_back(std::current_exception());
    return false;
  }
}

void FaultCollector::throw_if_any() const {
  if (errors_.empty()) return;
  if (errors_.size() == 1) std::rethrow_exception(errors_[0]);
  std::vector<Fault> faults;
  std::string text;
  ErrorKind first = ErrorKind::internal;
  for (const std::exception_ptr& stored : errors_) {
    try {
      std::rethrow_exception(stored);
    } catch (const Error& error) {
      if (text.empty()) first = error.kind();
      text += (text.empty() ? "" : "\n") + std::string(error.what()) + indented_hint(error);
      for (Fault& fault : faults_of(error)) faults.push_back(std::move(fault));
    }
  }
  throw FaultError(first, std::move(faults), text, "");
}

FaultError hide_secrets(const Error& error, const std::vector<Secret>& secrets) {
  std::vector<Fault> faults = faults_of(error);
  for (Fault& fault : faults) {
    fault.message = redacted(std::move(fault.message), secrets);
    fault.hint = redacted(std::move(fault.hint), secrets);
    fault.at.file = redacted(std::move(fault.at.file), secrets);
  }
  return FaultError(error.kind(), std::move(faults), redacted(std::string(error.what()), secrets),
                    redacted(error.hint(), secrets));
}

}  // namespace forge

#include "core/lib/base/unexpected.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

namespace forge {
namespace {

bool working_directory_is_gone() {
  std::error_code error;
  (void)std::filesystem::current_path(error);
  return error == std::errc::no_such_file_or_directory;
}

Error refused_by_the_system(const std::system_error& exception) {
  if (working_directory_is_gone())
    return Error(ErrorKind::environment, "the working directory does not exist any more")
        .hint("change to another one and run the command again");
  if (exception.code() == std::errc::not_enough_memory) return Error(ErrorKind::fit, "out of memory");
  if (exception.code() == std::errc::resource_unavailable_try_again)
    return Error(ErrorKind::environment,
                 std::string("the system refused a thread or process: ") + exception.what())
        .hint("raise the process limit (ulimit -u, or the container's), or lower train.threads");
  return Error(ErrorKind::environment, std::string("the system refused: ") + exception.what());
}

}  // namespace

std::string message_of(const std::exception& exception) {
  std::string text = exception.what();
  // These texts begin c10::Error's frames, and before them c10::AcceleratorError's advice on
  // debugging LibTorch.
  for (const char* added : {"\nException raised from ", "\nSearch for `cuda", "\nCUDA kernel errors might be"})
    text.resize(std::min(text.find(added), text.size()));
  return text;
}

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception))
    return Error(ErrorKind::fit, "out of memory")
        .hint(
            "close other programs that use memory, raise the limit (ulimit -v, the container's), or lower "
            "data.max_length");
  if (const auto* refused = dynamic_cast<const std::system_error*>(&exception))
    return refused_by_the_system(*refused);
  return Error(ErrorKind::internal, message_of(exception))
      .hint("this is a bug in forge; please report it with the job file");
}

}  // namespace forge

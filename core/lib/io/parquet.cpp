#include "core/lib/io/parquet.h"

#include <dlfcn.h>

#include <filesystem>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/installation.h"
#include "core/lib/base/text.h"
#include "core/lib/io/compressed.h"
#include "core/lib/io/json.h"
#include "core/lib/io/parquet_component.h"

namespace forge {
namespace {

// Checks the first bytes of the file: Parquet begins and ends with PAR1 (Apache Parquet format,
// "File format").
void check_magic(const std::string& path) {
  InputFile file(path);
  char bytes[64] = {};
  const int64_t count = file.read(bytes, sizeof bytes);
  const std::string_view start(bytes, static_cast<size_t>(count));
  if (starts_with(start, "PAR1")) return;
  refuse_git_lfs(start, path, ErrorKind::data);
  if (starts_with(start, "PARE")) throw Error(ErrorKind::data, path + ": is encrypted Parquet, expected plain Parquet");
  throw Error(ErrorKind::data, path + ": is not Parquet: it does not begin with PAR1");
}

constexpr const char* kArrow = "pyarrow==26.0.1";

bool lacks_arrow(const std::string& problem) { return problem.find(".so.2600: cannot open") != std::string::npos; }

[[noreturn]] void refuse(const std::string& problem) {
  const bool absent = problem.find(std::string(kParquetComponent) + ": cannot open") != std::string::npos;
  throw Error(ErrorKind::environment, absent ? "Parquet is read by an optional component, which is not installed"
                                      : lacks_arrow(problem) ? std::string("Parquet is read with ") + kArrow + ", which is not installed"
                                                             : "the component that reads Parquet cannot be loaded: " + problem)
      .hint(lacks_arrow(problem) ? std::string("install it beside torch: python3 -m pip install ") + kArrow + " (Python 3.11 or newer; docs/install.md has the way with 3.10)"
                                 : "build it: scripts/setup.sh --parquet && scripts/build.sh (55 MB)");
}

// Returns the hint's other way, for a file.
std::string conversion_of(const std::string& path) {
  const std::string out = std::filesystem::path(path).replace_extension(".jsonl").string();
  return "; or convert the file: pip install pandas pyarrow && python3 -c \"import pandas; pandas.read_parquet('" + path +
         "').to_json('" + out + "', orient='records', lines=True, force_ascii=False)\"";
}

// Loads Arrow's libraries from a Python package near the program; the component's needs are then
// met by their names.
bool load_arrow() {
  const auto library_of = [](const std::string& folder) { return folder + "/pyarrow/libparquet.so.2600"; };
  const std::string folder = find_package_folder([&](const std::string& f) { return file_exists(library_of(f)); });
  return !folder.empty() && ::dlopen(library_of(folder).c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Loads the component by name alone: the loader looks where the program's run path points. It is
// never unloaded.
OpenParquet* load_component() {
  const auto load = [] { return ::dlopen(kParquetComponent, RTLD_NOW | RTLD_LOCAL); };
  void* library = load();
  std::string problem = library ? "" : ::dlerror();
  if (lacks_arrow(problem) && load_arrow()) {
    library = load();
    problem = library ? "" : ::dlerror();
  }
  if (!library) refuse(problem);
  void* symbol = ::dlsym(library, kOpenParquetSymbol);
  if (!symbol) refuse(std::string("it has no ") + kOpenParquetSymbol);
  return reinterpret_cast<OpenParquet*>(symbol);
}

}  // namespace

void require_parquet() { load_component(); }

std::unique_ptr<ParquetFile> open_parquet(const std::string& path) {
  check_magic(path);
  OpenParquet* open = nullptr;
  try {
    open = load_component();
  } catch (const Error& error) {
    throw Error(error.kind(), path + ": " + error.what()).hint(error.hint() + conversion_of(path));
  }
  return std::unique_ptr<ParquetFile>(open(path));
}

}  // namespace forge

#pragma once
// Interface between the program and the component that reads Parquet. Both are built together, by
// one compiler: C++ values and exceptions cross.
#include "core/lib/io/parquet.h"

namespace forge {

constexpr const char* kParquetComponent = "libforge-parquet.so";
constexpr const char* kOpenParquetSymbol = "forge_open_parquet";
// The caller owns what it returns. Throws Error(data).
using OpenParquet = ParquetFile*(const std::string& path);

}  // namespace forge

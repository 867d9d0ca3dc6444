# Arrow's C++ libraries from the pyarrow wheel, for the optional component that reads Parquet.
# FORGE_ARROW_DIR holds pyarrow/ as pip unpacks it (scripts/setup.sh --parquet). Without it, forge
# is built without the component.
set(arrow_root "${FORGE_ARROW_DIR}")
if(NOT arrow_root)
  set(arrow_root "$ENV{HOME}/.cache/forge/arrow-26.0.1")
endif()
set(arrow_libraries ${arrow_root}/pyarrow/libarrow.so.2600 ${arrow_root}/pyarrow/libparquet.so.2600)
set(FORGE_BUILD_PARQUET OFF)
if(EXISTS ${arrow_root}/pyarrow/libparquet.so.2600)
  set(FORGE_BUILD_PARQUET ON)
  add_library(forge_arrow INTERFACE)
  target_include_directories(forge_arrow SYSTEM INTERFACE ${arrow_root}/pyarrow/include)
  target_link_libraries(forge_arrow INTERFACE ${arrow_libraries})
elseif(FORGE_ARROW_DIR)
  message(FATAL_ERROR "${FORGE_ARROW_DIR} does not hold pyarrow 26.0.1: run scripts/setup.sh --parquet")
endif()
message(STATUS "Parquet component: ${FORGE_BUILD_PARQUET}")

# Libraries the program uses; scripts/setup installs them all.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
# Headers only: Student's t distribution.
find_package(Boost 1.74 REQUIRED)
find_package(PkgConfig REQUIRED)
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)

find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
add_library(flashbert_tomlplusplus INTERFACE)
target_include_directories(flashbert_tomlplusplus SYSTEM INTERFACE "${TOMLPLUSPLUS_INCLUDE_DIR}")

find_path(DNNL_INCLUDE_DIR NAMES dnnl.hpp oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY NAMES dnnl REQUIRED)
add_library(flashbert_onednn INTERFACE)
target_include_directories(flashbert_onednn SYSTEM INTERFACE "${DNNL_INCLUDE_DIR}")
target_link_libraries(flashbert_onednn INTERFACE "${DNNL_LIBRARY}")

add_library(flashbert_hdf5 INTERFACE)
target_include_directories(flashbert_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(flashbert_hdf5 INTERFACE ${HDF5_C_LIBRARIES})

# The C interface of MPI only: the C++ bindings were removed from the standard.
add_library(flashbert_mpi INTERFACE)
target_include_directories(flashbert_mpi SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
target_link_libraries(flashbert_mpi INTERFACE ${MPI_CXX_LIBRARIES})
target_compile_definitions(flashbert_mpi INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

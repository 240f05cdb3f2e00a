# Build options and the interface target every folder's library links: language level, warnings, sanitizers.
set(FLASHBERT_CUDA "OFF" CACHE STRING "CUDA backend: OFF (the only choice in this version)")
set_property(CACHE FLASHBERT_CUDA PROPERTY STRINGS OFF)
if(NOT FLASHBERT_CUDA STREQUAL "OFF")
  message(FATAL_ERROR "FLASHBERT_CUDA=${FLASHBERT_CUDA}: this version has the CPU backend only; configure with -DFLASHBERT_CUDA=OFF "
                      "(the presets cpu-release, cpu-debug, cpu-tsan)")
endif()
option(FLASHBERT_TESTS "Build the tests" OFF)
option(FLASHBERT_WERROR "Treat warnings as errors" OFF)
set(FLASHBERT_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(flashbert_options INTERFACE)
target_compile_features(flashbert_options INTERFACE cxx_std_20)
target_include_directories(flashbert_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
# -ffp-contract=off: a product and a sum are fused only where the code says so, so every compiler rounds alike.
target_compile_options(flashbert_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -fno-math-errno
                       -ffp-contract=off $<$<BOOL:${FLASHBERT_WERROR}>:-Werror>)
if(FLASHBERT_SANITIZE)
  target_compile_options(flashbert_options INTERFACE -fsanitize=${FLASHBERT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(flashbert_options INTERFACE -fsanitize=${FLASHBERT_SANITIZE})
endif()

# flashbert_library(name DEPENDS lib...): one static library from the .cpp files of the calling folder (and of its
# subfolders, kernels/cpu for example). DEPENDS are linked publicly.
function(flashbert_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  add_library(flashbert_${name} STATIC ${sources})
  target_link_libraries(flashbert_${name} PUBLIC flashbert_options ${arg_DEPENDS})
endfunction()

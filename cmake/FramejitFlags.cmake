# Language, warnings and the compiler cache: what every target of the project is built with.
set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  # What ccache asks for before it caches anything with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

find_path(FRAMEJIT_FMT_INCLUDE fmt/format.h)
if(NOT FRAMEJIT_FMT_INCLUDE)
  message(FATAL_ERROR "framejit needs the headers of fmt: apt-get install libfmt-dev")
endif()

# base/format.cpp compiles what of fmt is not a template, once; written for fmt 9, which is Debian 12's. Any other fmt is
# used header-only, as it is where torch brings one of its own (cmake/FramejitPython.cmake).
file(STRINGS ${FRAMEJIT_FMT_INCLUDE}/fmt/core.h fmt_version REGEX "#define FMT_VERSION 9[0-9][0-9][0-9][0-9]$")

# Rooms keep default visibility: the extension `framejit_bytecode._core` exports them to `framejit._C`, and exceptions
# and typeids must be one across both. Calls inside one library still bind directly.
add_library(framejit_flags INTERFACE)
target_include_directories(framejit_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_include_directories(framejit_flags SYSTEM INTERFACE ${FRAMEJIT_FMT_INCLUDE})
if(NOT fmt_version)
  target_compile_definitions(framejit_flags INTERFACE FMT_HEADER_ONLY=1)
endif()
target_compile_options(
  framejit_flags
  INTERFACE -Wall
            -Wextra
            -Wno-unused-parameter
            -Wno-missing-field-initializers
            -Werror
            -fno-semantic-interposition
            $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
target_link_options(framejit_flags INTERFACE -Wl,-Bsymbolic-functions)

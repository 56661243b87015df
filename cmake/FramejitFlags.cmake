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
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

find_path(FRAMEJIT_FMT_INCLUDE fmt/format.h)
if(NOT FRAMEJIT_FMT_INCLUDE)
  message(FATAL_ERROR "framejit needs the headers of fmt: apt-get install libfmt-dev")
endif()

# Rooms keep default visibility: the extension `framejit_bytecode._core` exports them to `framejit._C`, and exceptions
# and typeids must be one across both. Calls inside one library still bind directly.
add_library(framejit_flags INTERFACE)
target_include_directories(framejit_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_include_directories(framejit_flags SYSTEM INTERFACE ${FRAMEJIT_FMT_INCLUDE})
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

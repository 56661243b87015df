# framejit_room(<name> SOURCES ... [DEPS room...] [PYTHON])
# One static, position-independent library per room. The link order is the architecture: a room lists the rooms it may
# include, nothing else. PYTHON adds the headers of the interpreter in FRAMEJIT_PYTHON.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

set(FRAMEJIT_PYTHON "" CACHE FILEPATH "the interpreter to build for")
set(FRAMEJIT_CXX11_ABI "" CACHE STRING "_GLIBCXX_USE_CXX11_ABI of the installed torch: 0 or 1; empty asks torch")

add_library(framejit_flags INTERFACE)
target_include_directories(framejit_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(framejit_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Werror
                       -fvisibility=hidden)
if(NOT FRAMEJIT_CXX11_ABI STREQUAL "")
  target_compile_definitions(framejit_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_USE_CXX11_ABI=${FRAMEJIT_CXX11_ABI}>)
endif()

if(FRAMEJIT_PYTHON)
  execute_process(COMMAND ${FRAMEJIT_PYTHON} -c "import sysconfig,sys;print(sysconfig.get_path('include'));print(sysconfig.get_config_var('EXT_SUFFIX'));print('%d%d' % sys.version_info[:2])"
                  OUTPUT_VARIABLE py_facts OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" py_facts "${py_facts}")
  list(GET py_facts 0 FRAMEJIT_PYTHON_INCLUDE)
  list(GET py_facts 1 FRAMEJIT_EXT_SUFFIX)
  list(GET py_facts 2 FRAMEJIT_PYTHON_TAG)  # 38 ... 313: picks the ABI files
  add_library(framejit_python INTERFACE)
  target_include_directories(framejit_python SYSTEM INTERFACE ${FRAMEJIT_PYTHON_INCLUDE})
endif()

function(framejit_room name)
  cmake_parse_arguments(ROOM "PYTHON" "" "SOURCES;DEPS" ${ARGN})
  add_library(framejit_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(framejit_${name} PUBLIC framejit_flags)
  foreach(dep ${ROOM_DEPS})
    target_link_libraries(framejit_${name} PUBLIC framejit_${dep})
  endforeach()
  if(ROOM_PYTHON)
    target_link_libraries(framejit_${name} PUBLIC framejit_python)
  endif()
endfunction()

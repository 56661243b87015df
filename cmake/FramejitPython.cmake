# The interpreter in FRAMEJIT_PYTHON and the torch that it has.
#   FRAMEJIT_PYTHON        the interpreter to build for; empty builds only the rooms that need none
#   FRAMEJIT_TORCH         OFF leaves out what needs torch (package `framejit`), so only `framejit_bytecode` is built
#   FRAMEJIT_CXX11_ABI     _GLIBCXX_USE_CXX11_ABI, 0 or 1; empty takes torch's, and it must not differ from torch's
# It gives the targets framejit_python and framejit_torch, and FRAMEJIT_PYTHON_TAG (38 ... 313: picks the ABI files),
# FRAMEJIT_PYTHON_VERSION (3.8), FRAMEJIT_EXT_SUFFIX, FRAMEJIT_TORCH_VERSION, FRAMEJIT_TORCH_ROOT.
set(FRAMEJIT_MINIMUM_TORCH 2.4.1)
set(FRAMEJIT_PYTHON "" CACHE FILEPATH "the interpreter to build for")
set(FRAMEJIT_CXX11_ABI "" CACHE STRING "_GLIBCXX_USE_CXX11_ABI: 0 or 1; empty takes torch's")
option(FRAMEJIT_TORCH "build what needs torch" ON)
if(SKBUILD AND NOT FRAMEJIT_PYTHON)
  set(FRAMEJIT_PYTHON ${Python_EXECUTABLE})
endif()

# Sets FACT_<key> in the caller from the `key=value` lines of tools/torch_facts.py.
macro(framejit_read_facts)
  execute_process(
    # -E: pip's isolated builds hide the environment's torch through PYTHONPATH
    COMMAND ${FRAMEJIT_PYTHON} -E ${PROJECT_SOURCE_DIR}/tools/torch_facts.py
    OUTPUT_VARIABLE facts_
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE facts_failed_)
  if(facts_failed_)
    message(FATAL_ERROR "FRAMEJIT_PYTHON=${FRAMEJIT_PYTHON} does not run")
  endif()
  string(REPLACE "\n" ";" facts_ "${facts_}")
  foreach(fact_ ${facts_})
    string(REGEX MATCH "^([^=]+)=(.*)$" fact_ "${fact_}")
    set(FACT_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
  endforeach()
endmacro()

function(framejit_check_torch)
  if(NOT FACT_torch_version)
    message(FATAL_ERROR "framejit needs torch ${FRAMEJIT_MINIMUM_TORCH} or newer, and ${FRAMEJIT_PYTHON} has none: "
                        "install it there (and pass --no-build-isolation to uv), or build without it "
                        "(-DFRAMEJIT_TORCH=OFF)")
  endif()
  string(REGEX MATCH "^[0-9.]+" release "${FACT_torch_version}")
  if(release VERSION_LESS FRAMEJIT_MINIMUM_TORCH)
    message(FATAL_ERROR "framejit needs torch ${FRAMEJIT_MINIMUM_TORCH} or newer, and ${FRAMEJIT_PYTHON} has torch "
                        "${FACT_torch_version}")
  endif()
  if(NOT FRAMEJIT_CXX11_ABI STREQUAL "" AND NOT FRAMEJIT_CXX11_ABI EQUAL FACT_torch_cxx11_abi)
    message(FATAL_ERROR "FRAMEJIT_CXX11_ABI=${FRAMEJIT_CXX11_ABI}, but the torch ${FACT_torch_version} of "
                        "${FRAMEJIT_PYTHON} was built with _GLIBCXX_USE_CXX11_ABI=${FACT_torch_cxx11_abi}")
  endif()
endfunction()

# LibTorch and the pybind11 that it ships. No RPATH: `import torch` has loaded these libraries before ours is.
function(framejit_add_torch)
  add_library(framejit_torch INTERFACE)
  set(include ${FACT_torch_root}/include)
  target_include_directories(framejit_torch SYSTEM INTERFACE ${include} ${include}/torch/csrc/api/include)
  foreach(lib c10 torch_cpu torch_python)
    target_link_libraries(framejit_torch INTERFACE ${FACT_torch_root}/lib/lib${lib}.so)
  endforeach()
  if(EXISTS ${include}/fmt/core.h)
    target_compile_definitions(framejit_torch INTERFACE FMT_HEADER_ONLY=1)
  endif()
  # pybind11's types must stay hidden, or each class that holds one draws a warning.
  target_compile_options(framejit_torch INTERFACE -fvisibility=hidden)
  # Wheels up to pybind11 2.13 name their compiler in the key of the type registry; ours must name the same.
  if(FACT_pybind11_compiler)
    target_compile_definitions(
      framejit_torch
      INTERFACE PYBIND11_COMPILER_TYPE="${FACT_pybind11_compiler}" PYBIND11_STDLIB="${FACT_pybind11_stdlib}"
                PYBIND11_BUILD_ABI="${FACT_pybind11_build_abi}")
  endif()
endfunction()

if(FRAMEJIT_PYTHON)
  framejit_read_facts()
  set(FRAMEJIT_PYTHON_TAG ${FACT_python_tag})
  set(FRAMEJIT_PYTHON_VERSION ${FACT_python_version})
  set(FRAMEJIT_EXT_SUFFIX ${FACT_ext_suffix})
  set(FRAMEJIT_PYTHON_DEBUG ${FACT_python_debug})
  if(NOT EXISTS ${FACT_python_include}/Python.h)
    message(FATAL_ERROR "${FRAMEJIT_PYTHON} has no Python.h in ${FACT_python_include}: install its development files")
  endif()
  add_library(framejit_python INTERFACE)
  target_include_directories(framejit_python SYSTEM INTERFACE ${FACT_python_include})
  if(FRAMEJIT_PYTHON_DEBUG)
    # GCC resolves the symbolic links in Debian's python3.11d/, and so finds the release build's pyconfig.h.
    target_compile_definitions(framejit_python INTERFACE Py_DEBUG=1)
  endif()
  if(FRAMEJIT_TORCH)
    framejit_check_torch()
    set(FRAMEJIT_CXX11_ABI ${FACT_torch_cxx11_abi})
    set(FRAMEJIT_TORCH_VERSION ${FACT_torch_version})
    set(FRAMEJIT_TORCH_ROOT ${FACT_torch_root})
    framejit_add_torch()
    message(STATUS "framejit: Python ${FRAMEJIT_PYTHON_VERSION}, torch ${FRAMEJIT_TORCH_VERSION}, "
                   "_GLIBCXX_USE_CXX11_ABI=${FRAMEJIT_CXX11_ABI}")
  endif()
endif()

if(NOT FRAMEJIT_CXX11_ABI STREQUAL "")
  add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_USE_CXX11_ABI=${FRAMEJIT_CXX11_ABI}>)
endif()

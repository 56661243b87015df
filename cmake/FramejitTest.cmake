# framejit_gtest(<name> SOURCES ... [DEPS room...])
#
# A GoogleTest program, run by ctest. Where a room in DEPS includes Python.h, the tests are a library that the
# interpreter in FRAMEJIT_PYTHON loads and runs, so they have a whole, real interpreter; where one includes LibTorch,
# torch is imported first and the other rooms come from `framejit_bytecode._core`. Tests of rooms without Python run once, in the build of the
# shared rooms, not again in each interpreter's build.
set(FRAMEJIT_GOOGLETEST_SOURCE /usr/src/googletest CACHE PATH "GoogleTest's source, as Debian's package googletest has it")
option(FRAMEJIT_TESTS "build the tests in C++" ON)

function(framejit_add_googletest)
  set(gtest ${FRAMEJIT_GOOGLETEST_SOURCE}/googletest)
  set(gmock ${FRAMEJIT_GOOGLETEST_SOURCE}/googlemock)
  if(NOT EXISTS ${gtest}/src/gtest-all.cc)
    message(FATAL_ERROR "the tests need GoogleTest's source in ${FRAMEJIT_GOOGLETEST_SOURCE}: apt-get install googletest")
  endif()
  if(FRAMEJIT_PYTHON AND FRAMEJIT_SHARED_DIR)
    add_library(framejit_googletest STATIC IMPORTED GLOBAL)
    set_target_properties(framejit_googletest PROPERTIES IMPORTED_LOCATION
                                                         ${FRAMEJIT_SHARED_DIR}/lib/libframejit_googletest.a)
  else()
    add_library(framejit_googletest STATIC ${gtest}/src/gtest-all.cc ${gmock}/src/gmock-all.cc)
    set_target_properties(framejit_googletest PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    target_include_directories(framejit_googletest PRIVATE ${gtest} ${gmock})
  endif()
  target_include_directories(framejit_googletest SYSTEM INTERFACE ${gtest}/include ${gmock}/include)
endfunction()

if(FRAMEJIT_TESTS)
  framejit_add_googletest()
endif()

function(framejit_gtest name)
  cmake_parse_arguments(TEST "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT FRAMEJIT_TESTS)
    return()
  endif()
  framejit_any_needs_python(python ${TEST_DEPS})
  foreach(dep ${TEST_DEPS})
    if(NOT TARGET framejit_${dep})
      return()
    endif()
  endforeach()
  if(python)
    framejit_gtest_in_python(${name})
  elseif(NOT FRAMEJIT_PYTHON OR NOT FRAMEJIT_SHARED_DIR)
    add_executable(${name} ${TEST_SOURCES} ${FRAMEJIT_GOOGLETEST_SOURCE}/googletest/src/gtest_main.cc)
    foreach(dep ${TEST_DEPS})
      target_link_libraries(${name} PRIVATE framejit_${dep})
    endforeach()
    target_link_libraries(${name} PRIVATE framejit_flags framejit_googletest)
    framejit_add_gtest(${name} $<TARGET_FILE:${name}>)
  endif()
endfunction()

# Called by framejit_gtest, in whose scope it reads TEST_SOURCES and TEST_DEPS.
function(framejit_gtest_in_python name)
  add_library(${name} MODULE ${TEST_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/gtest_in_python.cpp)
  target_link_libraries(${name} PRIVATE framejit_flags framejit_python framejit_googletest)
  set(imports)
  foreach(dep ${TEST_DEPS})
    get_property(torch GLOBAL PROPERTY framejit_room_torch_${dep})
    if(torch)
      set(imports torch framejit_bytecode)
    endif()
  endforeach()
  foreach(dep ${TEST_DEPS})
    framejit_link_room(${name} ${dep} "${imports}")
  endforeach()
  if(imports)
    target_link_libraries(${name} PRIVATE framejit_torch framejit_core)
  endif()
  framejit_add_gtest(${name} ${FRAMEJIT_PYTHON} ${PROJECT_SOURCE_DIR}/tests/support/run_gtest.py $<TARGET_FILE:${name}>
                     ${imports})
endfunction()

function(framejit_add_gtest name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_property(
    TEST ${name}
    PROPERTY ENVIRONMENT GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/gtest/${name}.xml FRAMEJIT_STRICT=1
             PYTHONPATH=${FRAMEJIT_PACKAGE_DIR} FRAMEJIT_SOURCE_DIR=${PROJECT_SOURCE_DIR})
endfunction()

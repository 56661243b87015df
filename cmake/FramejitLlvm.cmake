# framejit_llvm_library(SOURCES ... FOLDER folder KERNEL file)
#
# libframejit_llvm.so, which makes machine code of kernels: LLVM linked in statically, its symbols hidden, loaded when
# the first kernel is compiled. It depends on neither Python nor torch, so one serves all cells of a string ABI: a build
# that takes its rooms from FRAMEJIT_SHARED_DIR takes this library too. Without LLVM's development files nothing is
# built, and the back end `native` says so.

function(framejit_llvm_library)
  cmake_parse_arguments(LLVM "" "FOLDER;KERNEL" "SOURCES" ${ARGN})
  if(FRAMEJIT_PYTHON AND FRAMEJIT_SHARED_DIR)
    framejit_package_llvm(${FRAMEJIT_SHARED_DIR}/lib/libframejit_llvm.so)
    return()
  endif()
  find_program(FRAMEJIT_LLVM_CONFIG NAMES llvm-config-19 PATHS /usr/lib/llvm-19/bin DOC "llvm-config of LLVM 19")
  if(NOT FRAMEJIT_LLVM_CONFIG)
    message(WARNING "framejit: no LLVM 19 (Debian's llvm-19-dev), the back end `native` is left out")
    return()
  endif()
  list(TRANSFORM LLVM_SOURCES PREPEND ${LLVM_FOLDER}/)
  add_library(framejit_llvm SHARED ${LLVM_SOURCES} ${LLVM_KERNEL})
  framejit_llvm_output(include --includedir)
  framejit_llvm_output(folder --libdir)
  framejit_llvm_output(libraries --link-static --libs orcjit native passes)
  separate_arguments(libraries)
  target_include_directories(framejit_llvm SYSTEM PRIVATE ${include})
  target_link_libraries(framejit_llvm PRIVATE framejit_flags framejit_graph)
  target_compile_options(framejit_llvm PRIVATE -fvisibility=hidden)
  # The static archives of zlib and zstd: their users have neither installed.
  target_link_options(
    framejit_llvm PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,--no-undefined -L${folder})
  target_link_libraries(framejit_llvm PRIVATE ${libraries} -Wl,-Bstatic -lz -lzstd -Wl,-Bdynamic -ldl -lpthread)
  set_target_properties(framejit_llvm PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  if(FRAMEJIT_PYTHON)
    framejit_package_llvm($<TARGET_FILE:framejit_llvm>)
    add_dependencies(framejit_package_llvm framejit_llvm)
  endif()
endfunction()

function(framejit_llvm_output result)
  execute_process(COMMAND ${FRAMEJIT_LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
                          COMMAND_ERROR_IS_FATAL ANY)
  set(${result} ${text} PARENT_SCOPE)
endfunction()

# Beside the extension that loads it.
function(framejit_package_llvm library)
  set(packaged ${PROJECT_BINARY_DIR}/packages/framejit/libframejit_llvm.so)
  add_custom_target(
    framejit_package_llvm ALL
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/packages/framejit
    COMMAND ${CMAKE_COMMAND} -E create_symlink ${library} ${packaged}
    VERBATIM)
  install(FILES ${library} DESTINATION framejit COMPONENT framejit OPTIONAL)
endfunction()

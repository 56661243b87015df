# framejit_extension(<name> PACKAGE package MODULE module SOURCES ... DEPS room... [TORCH])
#
# An extension module, target framejit_<name>, at <package>/<module><EXT_SUFFIX> beneath FRAMEJIT_PACKAGE_DIR, where the
# package's Python files are linked to as well, so that this one folder on sys.path gives an importable package.
#   without TORCH  a shared library that takes in the rooms of DEPS whole and exports them: `framejit_bytecode._core`
#   TORCH          links the rooms of DEPS that include LibTorch, all others out of framejit_core: `framejit._C`
set(FRAMEJIT_PACKAGE_DIR ${PROJECT_BINARY_DIR}/packages)

function(framejit_extension name)
  cmake_parse_arguments(EXT "TORCH" "PACKAGE;MODULE" "SOURCES;DEPS" ${ARGN})
  if(NOT FRAMEJIT_PYTHON OR (EXT_TORCH AND NOT TARGET framejit_torch))
    return()
  endif()
  add_library(framejit_${name} SHARED ${EXT_SOURCES})
  set_target_properties(
    framejit_${name}
    PROPERTIES PREFIX ""
               OUTPUT_NAME ${EXT_MODULE}
               LINKER_LANGUAGE CXX
               SUFFIX ${FRAMEJIT_EXT_SUFFIX}
               LIBRARY_OUTPUT_DIRECTORY ${FRAMEJIT_PACKAGE_DIR}/${EXT_PACKAGE}
               BUILD_WITH_INSTALL_RPATH ON)
  target_link_libraries(framejit_${name} PRIVATE framejit_flags framejit_python)
  if(EXT_TORCH)
    set_target_properties(framejit_${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../framejit_bytecode")
    target_link_libraries(framejit_${name} PRIVATE framejit_torch framejit_core)
    foreach(dep ${EXT_DEPS})
      framejit_link_room(framejit_${name} ${dep} TRUE)
    endforeach()
  else()
    # Link options rather than libraries: CMake names a static library as often as something needs it, and a whole
    # archive must come once.
    foreach(dep ${EXT_DEPS})
      list(APPEND archives $<TARGET_FILE:framejit_${dep}>)
      framejit_link_room(framejit_${name} ${dep} TRUE)
    endforeach()
    target_link_options(framejit_${name} PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive)
    set_target_properties(framejit_${name} PROPERTIES LINK_DEPENDS "${archives}")
  endif()
  install(TARGETS framejit_${name} LIBRARY DESTINATION ${EXT_PACKAGE} COMPONENT framejit)
  framejit_package(${EXT_PACKAGE})
endfunction()

# Links the Python files of python/<package> into FRAMEJIT_PACKAGE_DIR, anew in each build, so that a file that was added
# or removed is seen without a new configure; and records what the package was built for.
function(framejit_package package)
  add_custom_target(
    framejit_package_${package} ALL
    COMMAND ${FRAMEJIT_PYTHON} ${PROJECT_SOURCE_DIR}/tools/link_package.py ${PROJECT_SOURCE_DIR}/python/${package}
            ${FRAMEJIT_PACKAGE_DIR}/${package}
    COMMENT "linking the Python files of ${package}"
    VERBATIM)
  set(info ${FRAMEJIT_PACKAGE_DIR}/${package}/_build_info.py)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/_build_info.py.in ${info} @ONLY)
  install(FILES ${info} DESTINATION ${package} COMPONENT framejit)
endfunction()

# framejit_room(<name> SOURCES ... [APART ...] [DEPS room...] [PYTHON] [TORCH])
#
# One static, position-independent library per room, target framejit_<name>. The link order is the architecture: a room
# lists the rooms it may include, nothing else.
#   PYTHON  the room includes Python.h. A room is also taken for one if a room in DEPS is.
#   APART   files with compile options of their own, which compile with no other.
#   TORCH   the room includes LibTorch: it goes into `framejit._C`, its symbols are hidden, and the rooms of its DEPS are
#           not linked with it, for they come out of `framejit_bytecode._core`.
#
# Rooms without PYTHON compile once for all interpreters. A build with FRAMEJIT_PYTHON empty makes just these (and
# their tests); a build for one interpreter takes them from there when FRAMEJIT_SHARED_DIR names that build's folder,
# and compiles its own otherwise.
#
# The C++ files of a room that compiles for each interpreter are compiled eight at a time: what they include is most of
# the work, and this is a third of it. So a name in one file's unnamed namespace must not be in another's too, which
# tools/lint/unnamed.py sees to. CMake's own UNITY_BUILD names the files by absolute paths, so that a compiler cache finds
# nothing in a checkout at another path.
set(FRAMEJIT_SHARED_DIR "" CACHE PATH "build folder of the rooms that need no interpreter")

# Sets <result> to TRUE if one of the rooms includes Python.h.
function(framejit_any_needs_python result)
  set(${result} FALSE PARENT_SCOPE)
  foreach(room ${ARGN})
    get_property(needs GLOBAL PROPERTY framejit_room_python_${room})
    if(needs)
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

function(framejit_room name)
  cmake_parse_arguments(ROOM "PYTHON;TORCH" "" "SOURCES;APART;DEPS" ${ARGN})
  framejit_any_needs_python(python ${ROOM_DEPS})
  if(ROOM_PYTHON OR ROOM_TORCH OR python)
    set(python TRUE)
  endif()
  set_property(GLOBAL PROPERTY framejit_room_python_${name} ${python})
  set_property(GLOBAL PROPERTY framejit_room_torch_${name} ${ROOM_TORCH})
  if((python AND NOT FRAMEJIT_PYTHON) OR (ROOM_TORCH AND NOT TARGET framejit_torch))
    return()
  endif()
  if(TARGET framejit_${name}) # imported from FRAMEJIT_SHARED_DIR
    return()
  endif()

  if(python)
    framejit_together(${name} ROOM_SOURCES)
  endif()
  add_library(framejit_${name} STATIC ${ROOM_SOURCES} ${ROOM_APART})
  target_link_libraries(framejit_${name} PUBLIC framejit_flags)
  if(python)
    target_link_libraries(framejit_${name} PUBLIC framejit_python)
  elseif(NOT FRAMEJIT_PYTHON)
    framejit_share_room(${name} ${ROOM_DEPS})
  endif()
  if(ROOM_TORCH)
    target_link_libraries(framejit_${name} PUBLIC framejit_torch)
  endif()
  foreach(dep ${ROOM_DEPS})
    framejit_link_room(framejit_${name} ${dep} "${ROOM_TORCH}")
  endforeach()
endfunction()

# Replaces the C++ files of a list by files that include eight of them each.
function(framejit_together name list)
  set(sources ${${list}})
  list(FILTER sources INCLUDE REGEX "[.]cpp$")
  set(rest ${${list}})
  list(FILTER rest EXCLUDE REGEX "[.]cpp$")
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(batch 0)
  while(sources)
    list(SUBLIST sources 0 8 files)
    list(REMOVE_ITEM sources ${files})
    list(TRANSFORM files REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
    list(JOIN files "" together)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/together/${name}_${batch}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${together}" @ONLY)
    list(APPEND rest ${file})
    math(EXPR batch "${batch} + 1")
  endwhile()
  set(${list} ${rest} PARENT_SCOPE)
endfunction()

function(framejit_link_room target dep for_torch)
  get_property(dep_torch GLOBAL PROPERTY framejit_room_torch_${dep})
  if(for_torch AND NOT dep_torch)
    target_include_directories(${target} PUBLIC $<TARGET_PROPERTY:framejit_${dep},INTERFACE_INCLUDE_DIRECTORIES>)
    get_target_property(imported framejit_${dep} IMPORTED)
    if(NOT imported)
      add_dependencies(${target} framejit_${dep}) # its generated headers
    endif()
  else()
    target_link_libraries(${target} PUBLIC framejit_${dep})
  endif()
endfunction()

# Tells the builds that use this one how to import the room.
function(framejit_share_room name)
  set_target_properties(framejit_${name} PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  string(JOIN " " line framejit_import_room\( ${name} ${ARGN} \)\n)
  file(APPEND ${PROJECT_BINARY_DIR}/framejit_shared_rooms.cmake "${line}")
endfunction()

function(framejit_import_room name)
  add_library(framejit_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(framejit_${name} PROPERTIES IMPORTED_LOCATION ${FRAMEJIT_SHARED_DIR}/lib/libframejit_${name}.a)
  target_link_libraries(framejit_${name} INTERFACE framejit_flags)
  foreach(dep ${ARGN})
    target_link_libraries(framejit_${name} INTERFACE framejit_${dep})
  endforeach()
endfunction()

if(FRAMEJIT_PYTHON AND FRAMEJIT_SHARED_DIR)
  target_include_directories(framejit_flags INTERFACE ${FRAMEJIT_SHARED_DIR}/generated)
  include(${FRAMEJIT_SHARED_DIR}/framejit_shared_rooms.cmake)
elseif(NOT FRAMEJIT_PYTHON)
  file(WRITE ${PROJECT_BINARY_DIR}/framejit_shared_rooms.cmake "# written by cmake/FramejitRoom.cmake\n")
endif()

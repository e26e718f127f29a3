# One folder = one module = one static library; the DEPENDS of a module are its permitted arrows (DESIGN.md section 2).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(LITESPARK_CCACHE ccache)
if(LITESPARK_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LITESPARK_CCACHE})
endif()

add_library(litespark_flags INTERFACE)
target_include_directories(litespark_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(litespark_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LITESPARK_WERROR}>>:-Werror>)
if(LITESPARK_SANITIZER)
  target_compile_options(litespark_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LITESPARK_SANITIZER}
    -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(litespark_flags INTERFACE -fsanitize=${LITESPARK_SANITIZER})
endif()

# litespark_module(NAME [DEPENDS module...] [LIBRARIES target...]): every .cpp of the calling folder, CUDA folders apart.
function(litespark_module name)
  cmake_parse_arguments(MODULE "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)  # headers alone
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/headers_alone.cpp)
    file(CONFIGURE OUTPUT ${sources} CONTENT "")
  endif()
  add_library(litespark_${name} STATIC ${sources})
  list(TRANSFORM MODULE_DEPENDS PREPEND litespark_)
  target_link_libraries(litespark_${name} PUBLIC litespark_flags ${MODULE_DEPENDS} PRIVATE ${MODULE_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY LITESPARK_MODULES litespark_${name})
endfunction()

# Programs that measure one thing: ninja bench_<name>; not part of the tests.
if(HY_KERN_ONLY)
  return()
endif()
file(GLOB bench_src CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.c)
foreach(src ${bench_src})
  get_filename_component(name ${src} NAME_WE)
  add_executable(bench_${name} EXCLUDE_FROM_ALL ${src})
  target_link_libraries(bench_${name} PRIVATE hy_engine hy_plan hy_sample hy_tok hy_gram hy_probe PkgConfig::JANSSON)
endforeach()

# Speeds against those of the nights before: preset nightly.
if(HY_NIGHTLY)
  add_test(NAME nightly.bench COMMAND ${CMAKE_SOURCE_DIR}/tools/nightly.sh --measure $<TARGET_FILE:hayate>)
  set_tests_properties(nightly.bench PROPERTIES LABELS nightly TIMEOUT 3600 RUN_SERIAL TRUE)
endif()

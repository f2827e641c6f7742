# hayate pull against a local server
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND TARGET hayate)
  add_test(NAME e2e.pull COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_pull.py
           $<TARGET_FILE:hayate>)
  set_tests_properties(e2e.pull PROPERTIES TIMEOUT 900)
endif()

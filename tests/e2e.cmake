# The program from outside: its commands, and what may go wrong
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND TARGET hayate)
  foreach(name cli faults measure bench serve serve_life api api_chat)
    add_test(NAME e2e.${name} COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_${name}.py
             $<TARGET_FILE:hayate>)
    set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 600)
  endforeach()
endif()
if(TARGET test_engine_real)
  set_tests_properties(prop.test_engine_real PROPERTIES LABELS slow)
endif()

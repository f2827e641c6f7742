# Tool calls and thoughts through the server: Anthropic's messages, OpenAI's responses
if(Python3_FOUND AND TARGET hayate)
  foreach(name messages responses)
    add_test(NAME e2e.${name} COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/e2e/test_${name}.py
             $<TARGET_FILE:hayate>)
    set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 1800)
  endforeach()
endif()

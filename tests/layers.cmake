# The rules of the source tree, and that their checker works.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT HY_KERN_ONLY)
  add_test(NAME layers COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/layers/check_layers.py
           ${CMAKE_SOURCE_DIR} --build ${CMAKE_BINARY_DIR})
  add_test(NAME layers.checker
           COMMAND ${Python3_EXECUTABLE} -B -m unittest test_check_layers
           WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}/layers)
endif()

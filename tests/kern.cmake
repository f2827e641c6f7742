# checkkern: both kernel checks in one program, without a test library. The matmul test's main is
# renamed here, so that each test also stands alone.
if(TARGET hy_kern)
  add_library(checkkern_mm OBJECT kern/test_kern_mm.c)
  target_compile_definitions(checkkern_mm PRIVATE HY_CHECKKERN=1 main=check_mm)
  target_link_libraries(checkkern_mm PRIVATE hy_kern)
  add_executable(checkkern kern/checkkern.c kern/test_kern_vec.c $<TARGET_OBJECTS:checkkern_mm>)
  target_compile_definitions(checkkern PRIVATE HY_CHECKKERN=1)
  target_link_libraries(checkkern PRIVATE hy_kern)
endif()

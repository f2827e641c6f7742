# checkkern: both kernel checks in one program, without a test library. The matmul test's main is
# renamed here, so that each test also stands alone.
if(TARGET hy_kern)
  # AMX: the kernel's own source over tiles in C, on processors that have AVX-512 and no tiles
  if(HY_PROC MATCHES "x86_64|AMD64" AND NOT HY_EMU512)
    add_library(amx_in_c OBJECT ${CMAKE_SOURCE_DIR}/src/kern/x86/amx_mm.c)
    target_compile_options(amx_in_c PRIVATE -O2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mavx512vnni -mfma
                           -mf16c -ffp-contract=off)
    target_compile_definitions(amx_in_c PRIVATE HY_EMU_AMX=1 MM_FILL=hy_mm_fill_amx_in_c)
    target_link_libraries(amx_in_c PRIVATE hy_kern)
    target_link_libraries(test_kern_mm PRIVATE amx_in_c)
    target_compile_definitions(test_kern_mm PRIVATE HY_AMX_IN_C=1)
  endif()
  add_library(checkkern_mm OBJECT kern/test_kern_mm.c)
  target_compile_definitions(checkkern_mm PRIVATE HY_CHECKKERN=1 main=check_mm)
  target_link_libraries(checkkern_mm PRIVATE hy_kern)
  add_executable(checkkern kern/checkkern.c kern/test_kern_vec.c $<TARGET_OBJECTS:checkkern_mm>)
  target_compile_definitions(checkkern PRIVATE HY_CHECKKERN=1)
  target_link_libraries(checkkern PRIVATE hy_kern)
endif()

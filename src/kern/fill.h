/* The hooks that make up an ISA's part of the table: matmul (mm) and everything else (vec). Each
 * sets the entries it does better than what is there and nothing else; the features are checked by
 * the caller (fill_x86.c, fill_arm.c). */
#ifndef HY_KERN_FILL_H
#define HY_KERN_FILL_H

#include "kern/kern.h"

void hy_mm_fill_scalar(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_scalar_bf16(hy_kernels *k); /* the definition of avx512bf16 */
void hy_mm_fill_avx2(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_avx512(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_avxvnni(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_evexvnni(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_amx(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_avx512bf16(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_neon(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_dotprod(hy_kernels *k, uint64_t cpu);
void hy_mm_fill_i8mm(hy_kernels *k, uint64_t cpu);

void hy_vec_fill_scalar(hy_kernels *k, uint64_t cpu);
void hy_vec_fill_avx2(hy_kernels *k, uint64_t cpu);
void hy_vec_fill_avx512(hy_kernels *k, uint64_t cpu);
void hy_vec_fill_neon(hy_kernels *k, uint64_t cpu);
void hy_vec_fill_dotprod(hy_kernels *k, uint64_t cpu);
void hy_vec_fill_i8mm(hy_kernels *k, uint64_t cpu);

/* One ISA of this build, worst first in hy_kern_isa_list. */
typedef struct hy_kern_isa {
    const char *name;
    uint32_t panel; /* rows a panel of the weights its matmul reads */
    bool proven;    /* has run the kernel tests on hardware (docs/isa.md) */
    uint64_t need;  /* HY_CPU_* bits, all of them */
    void (*fill)(hy_kernels *k, uint64_t cpu);
    uint64_t or_need; /* not 0: these do as well */
    const char *off;  /* not NULL: only taken when it is named, and why */
    bool (*allow)(void); /* not NULL: the system must agree */
} hy_kern_isa;
extern const hy_kern_isa hy_kern_isa_list[];
extern const uint32_t hy_kern_isa_count;

#endif

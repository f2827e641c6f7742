/* What the scalar room's files share. */
#ifndef HY_KERN_SCALAR_H
#define HY_KERN_SCALAR_H

#include "kern/kern.h"

void hy_kv_put_k_scalar(hy_kv_type t, uint8_t *page_k, uint32_t d_k, uint32_t slot, const float *k);
void hy_kv_put_v_scalar(hy_kv_type t, uint8_t *page_v, uint32_t d_v, uint32_t slot, const float *v);
void hy_att_scalar(const hy_att *a);
void hy_att_fold_scalar(uint32_t n, float *m_acc, float *l_acc, float *o_acc, const float *m,
                        const float *l, const float *o, uint32_t d_v);

#endif

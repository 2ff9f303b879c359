/* Each runs the kernels of one file and compares them with sums in float64 on the CPU (own_matrices.c, own_copies.c,
 * own_threads.c). */
#ifndef EMU_TESTS_OWN_CHECKS_H
#define EMU_TESTS_OWN_CHECKS_H

void check_gemm_tma(void);
void check_wgmma_layouts(void);
void check_wgmma_types(void);
void check_mma_sync(void);

void check_tma_reduce(void);
void check_cluster_exchange(void);
void check_cluster_multicast(void);
void check_cp_async(void);
void check_tensor_map_made(void);

void check_reductions(void);
void check_atomics(void);
void check_roles(void);
void check_packed(void);
void check_dependents(void);

#endif

/*
 * compat11.h - what libcudart.so.11.0 has otherwise than libcudart.so.12. Included by
 * rt.h after compat12.h; empty but for 11. The names that 11 has with other parameters
 * become hidden ones here; compat11.c defines 11's. CMakeLists.txt leaves out the names
 * that came with 12.
 *
 * Owns:  nothing.   Lock: none.
 */
#ifndef GS_SIM_RT_COMPAT11_H
#define GS_SIM_RT_COMPAT11_H

#if GS_RT_MAJOR == 11

extern __typeof__(cudaGraphInstantiate) gs_rt_graph_instantiate_12;
extern __typeof__(cudaGraphExecUpdate) gs_rt_graph_exec_update_12;
cudaError_t gs_rt_get_driver_entry_point_12(const char *symbol, void **out,
                                            unsigned long long flags,
                                            enum cudaDriverEntryPointQueryResult *status);
cudaError_t
gs_rt_get_driver_entry_point_ptsz_12(const char *symbol, void **out,
                                     unsigned long long flags,
                                     enum cudaDriverEntryPointQueryResult *status);

#define cudaGraphInstantiate         gs_rt_graph_instantiate_12
#define cudaGraphExecUpdate          gs_rt_graph_exec_update_12
#define cudaGetDriverEntryPoint      gs_rt_get_driver_entry_point_12
#define cudaGetDriverEntryPoint_ptsz gs_rt_get_driver_entry_point_ptsz_12

#endif
#endif

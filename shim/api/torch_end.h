/*
 * torch_end.h - finds the tensors that PyTorch cannot free because Python has ended.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_TORCH_END_H
#define GS_TORCH_END_H

/* Called with PyTorch's first tensor; later calls do nothing. */
void gs_torch_end_watch(void);

#endif

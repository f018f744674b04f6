/*
 * torch_end.h - finds the tensors that PyTorch cannot free because Python has ended.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_TORCH_END_H
#define GS_TORCH_END_H

#include <stdbool.h>

/* Called at the start, and with the first tensor of a PyTorch that was loaded later; does
 * nothing without PyTorch. */
void gs_torch_end_watch(void);

/* Whether Python has ended, and frees its objects. False without PyTorch. */
bool gs_torch_end_has_come(void);

#endif

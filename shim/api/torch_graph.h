/*
 * torch_graph.h - the tensors that an object of PyTorch holds: itself, its graph and its
 * gradient.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_TORCH_GRAPH_H
#define GS_TORCH_GRAPH_H

#include <link.h>

#include "gs_base.h"

/* Called with each loaded module, before the first walk, perhaps again: PyTorch's own are
 * kept. */
void gs_torch_graph_module(const struct dl_phdr_info *info, const char *soname);

/* Calls `found` with the GPU memory of each tensor that the object at an address holds,
 * unless an earlier walk came by. The address may be any number. One walk at a
 * time: a second one is left out. */
void gs_torch_graph_walk(uintptr_t tensor, void (*found)(uint64_t addr));

#endif

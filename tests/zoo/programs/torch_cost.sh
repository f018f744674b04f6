#!/usr/bin/env bash
# torch_cost.sh - what PyTorch's training steps reserve under gpushim, beside PyTorch's own cache.
python "$SOURCES/tests/real/cost/torch_cost.py" "$BUILD" cache use tensors --turns 1 --check

#!/usr/bin/env bash
# nvtx_phases.sh - the ranges that the package nvtx and PyTorch push are scopes: each allocation is in its own.
GPUSHIM_OUTPUT=collapsed GPUSHIM_OUTPUT_FILE=$PWD/stacks "$BUILD/gpushim" --nvtx python "${0%/*}/nvtx_phases.py" || exit
sed -E 's/^GPU 0;(\[scope .*\];)?.* /\1 /' stacks | sort >found
diff - found <<'FOUND'
 524288
[scope epoch/step 1]; 262144
[scope load/decode]; 131072
[scope load]; 65536
[scope worker]; 1048576
FOUND

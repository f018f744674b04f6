#!/usr/bin/env bash
# memory_saver.sh MODE - torch_memory_saver's own library is preloaded before what is preloaded already.
hook=$(python -c 'import glob, importlib.util, os
place = importlib.util.find_spec("torch_memory_saver").origin
print(glob.glob(os.path.join(os.path.dirname(os.path.dirname(place)), "torch_memory_saver_hook_mode_preload*.so"))[0])')
LD_PRELOAD=$hook${LD_PRELOAD:+:$LD_PRELOAD} python "${0%/*}/memory_saver.py" "$1"

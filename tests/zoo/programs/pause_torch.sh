#!/usr/bin/env bash
# pause_torch.sh - while PyTorch works, its memory goes to the host and comes back, three times.
LD_PRELOAD=$BUILD/libgpushim.so python "${0%/*}/pause_torch.py" "$PWD" >out 2>err &
for ((i = 0; i < 1200; i++)); do
  [[ ! -s number ]] || break
  sleep 0.1
done
number=$(cat number)
for ((i = 0; i < 3; i++)); do
  "$BUILD/gpushim" pause "$number" && sleep 0.2 && "$BUILD/gpushim" resume "$number"
  sleep 0.1
done >said 2>&1
: >over
wait $! && [[ $(grep -c "^resumed $number\$" said) -eq 3 && $(<out) == "wrong: 0" ]] && exit
cat said out err
exit 1

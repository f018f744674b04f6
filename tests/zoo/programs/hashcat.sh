#!/usr/bin/env bash
# hashcat.sh - hashcat lists its devices: it opens the driver, NVRTC and NVML.
# zoo: prints listed 0
hashcat -I | grep -vE '^(OpenCL|hashcat|$)' | grep -iE 'cuda|name|warning' | sort -u
echo "listed ${PIPESTATUS[0]}"

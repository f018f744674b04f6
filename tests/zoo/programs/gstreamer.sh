#!/usr/bin/env bash
# gstreamer.sh - GStreamer's CUDA elements: frames to the device and back.
# zoo: prints frames 0
export GST_REGISTRY=$PWD/registry GST_REGISTRY_FORK=no
gst-inspect-1.0 --print-all 2>/dev/null | grep -c '^nvcodec:' | sed 's/^/elements of nvcodec: /'
gst-launch-1.0 -q videotestsrc num-buffers=25 ! video/x-raw,format=NV12,width=320,height=240 ! cudaupload ! cudadownload ! \
  filesink location=data-frames
echo "frames $?"

#!/usr/bin/env bash
# ffmpeg.sh - FFmpeg moves frames to the device and back, in two formats: each frame's checksum.
# zoo: prints upload 0
for format in nv12 yuv420p; do
  ffmpeg -hide_banner -loglevel error -nostdin -init_hw_device cuda=device -f lavfi -i testsrc2=duration=1:size=320x240:rate=25 \
    -vf "format=$format,hwupload_cuda,hwdownload,format=$format" -f framecrc "data-$format"
  echo "upload $?"
  cat "data-$format"
done

#!/usr/bin/env bash
# prefix.sh PROGRAM - a prefix as Conda makes it: a program finds its runtime beside itself, by RPATH.
# zoo: prints sum 357389824
mkdir -p prefix/bin prefix/lib
cp "$BUILD"/sim/libcudart.so.13 prefix/lib
cc -g -O1 -w "-I$CUDA_INCLUDE" "$1" -o prefix/bin/kept -Lprefix/lib -l:libcudart.so.13 "-Wl,-rpath,\$ORIGIN/../lib,--disable-new-dtags"
prefix/bin/kept

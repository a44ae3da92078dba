#!/bin/bash
# Runs a test as if the processor had no AVX-512, as far as oneDNN is concerned.
exec env ONEDNN_MAX_CPU_ISA=AVX2 "$@"

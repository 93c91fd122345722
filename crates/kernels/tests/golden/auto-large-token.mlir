// auto large 256x256x256:128 x=fp8 scales=token out=bf16 print=mosaic

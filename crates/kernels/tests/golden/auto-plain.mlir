// auto aligned 256x256x256:256 x=plain-bf16 out=bf16 print=mosaic

// smem large 256x1024x256:128 x=bf16 scales=block out=f32 print=mosaic

// strip large 16x1024x256:128 x=fp8 scales=block out=f32 print=mosaic

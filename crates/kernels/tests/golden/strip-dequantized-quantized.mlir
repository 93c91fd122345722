// strip aligned 128x256x128:128 x=bf16 scales=block out=f32 print=mosaic

// dma aligned 256x256x384:128 x=fp8 scales=block out=f32 print=mosaic

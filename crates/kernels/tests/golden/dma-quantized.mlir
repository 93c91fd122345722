// dma aligned 256x256x256:128 x=f32 scales=token out=f32 print=mosaic

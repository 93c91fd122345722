// dma large 100x200x300:128 x=fp8 scales=block out=f32 print=stablehlo

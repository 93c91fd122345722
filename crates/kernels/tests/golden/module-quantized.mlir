// strip large 100x200x300:128 x=f32 scales=token out=f16 print=stablehlo

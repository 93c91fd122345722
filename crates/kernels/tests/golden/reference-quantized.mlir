// auto aligned 100x200x300:128 x=bf16 scales=block out=f32 print=reference

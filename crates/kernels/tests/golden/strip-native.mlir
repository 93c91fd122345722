// strip large 512x512x1024:512 x=fp8 scales=block out=bf16 print=mosaic

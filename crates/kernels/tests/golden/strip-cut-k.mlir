// strip aligned 256x256x131072:256 x=fp8 scales=block out=f32 print=mosaic

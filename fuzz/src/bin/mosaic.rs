#![cfg_attr(fuzzing, no_main)]
#![doc = "The `mosaic` target."]

octile_fuzz::target!(mosaic);

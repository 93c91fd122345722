#![cfg_attr(fuzzing, no_main)]
#![doc = "The `stablehlo` target."]

octile_fuzz::target!(stablehlo);

#![cfg_attr(fuzzing, no_main)]
#![doc = "The `hlo` target."]

octile_fuzz::target!(hlo);

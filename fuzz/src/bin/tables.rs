#![cfg_attr(fuzzing, no_main)]
#![doc = "The `tables` target."]

octile_fuzz::target!(tables);

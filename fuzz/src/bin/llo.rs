#![cfg_attr(fuzzing, no_main)]
#![doc = "The `llo` target."]

octile_fuzz::target!(llo);

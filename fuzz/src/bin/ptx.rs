#![cfg_attr(fuzzing, no_main)]
#![doc = "The `ptx` target."]

octile_fuzz::target!(ptx);

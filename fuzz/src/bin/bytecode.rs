#![cfg_attr(fuzzing, no_main)]
#![doc = "The `bytecode` target."]

octile_fuzz::target!(bytecode);

#![cfg_attr(fuzzing, no_main)]
#![doc = "The `manifest` target."]

octile_fuzz::target!(manifest);

#![cfg_attr(fuzzing, no_main)]
#![doc = "The `kernel_body` target."]

octile_fuzz::target!(kernel_body);

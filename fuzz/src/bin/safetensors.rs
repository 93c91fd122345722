#![cfg_attr(fuzzing, no_main)]
#![doc = "The `safetensors` target."]

octile_fuzz::target!(safetensors);

#![cfg_attr(fuzzing, no_main)]
#![doc = "The `sass` target."]

octile_fuzz::target!(sass);

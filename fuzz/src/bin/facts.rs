#![cfg_attr(fuzzing, no_main)]
#![doc = "The `facts` target."]

octile_fuzz::target!(facts);

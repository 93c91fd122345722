//! Gives the library the name under which programs ask for the CUDA driver: once it is loaded, whoever opens `libcuda.so`
//! gets it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
}

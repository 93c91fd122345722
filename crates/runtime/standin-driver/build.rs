//! Sets the soname of the CUDA driver: once the stand-in is loaded, `dlopen("libcuda.so")` returns it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
}

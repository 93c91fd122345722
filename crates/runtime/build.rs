//! Hashes the sources of the CPU kernels and of their plans, so that tables of tuned plans know whether they
//! were measured with the same.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    // The plans are beside this crate in a checkout; a published version cannot change.
    for folder in ["src/cpu", "../core/src/plan", "../core/src/device"] {
        collect(&root.join(folder), &mut files);
    }
    files.retain(|file| {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        name.contains("cpu") && !name.contains("tests")
    });
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        for byte in fs::read(&file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rerun-if-changed=src/cpu");
    println!("cargo::rustc-env=OCTILE_CPU_KERNELS={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

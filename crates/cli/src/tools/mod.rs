//! Compilers and disassemblers of the vendors: called, never shipped. They come as Python wheels, so that one rule
//! finds them in a virtual environment and in the folder of `octile tools install` alike.

mod assembler;
mod find;
mod install;
mod version;

pub use assembler::{Assembled, Assembler};
pub use find::{FindError, Found, Origin, Places};
pub use install::{Installed, install};
pub use version::Version;

/// A file that some wheel holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// What messages call it.
    pub name: &'static str,
    /// The group that installs it: the argument of `octile tools install`.
    pub group: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// The wheel.
    pub distribution: &'static str,
    /// The file, from the folder that wheels are unpacked into.
    pub file: &'static str,
    /// The variable that names the file and overrules every folder.
    pub variable: &'static str,
    /// The oldest version that is known to work.
    pub oldest: Version,
    /// The first version that is not installed: figures are compared between compilers of one release.
    pub below: Version,
    /// Whether the file is a program, and so may also be on the search path.
    pub program: bool,
}

/// The TPU compiler.
pub const LIBTPU: Tool = Tool {
    name: "libtpu",
    group: "tpu",
    purpose: "compiles for TPUs, with no TPU needed",
    distribution: "libtpu",
    file: "libtpu/libtpu.so",
    variable: "OCTILE_LIBTPU",
    oldest: Version([0, 0, 42, 0]),
    below: Version([0, 0, 43, 0]),
    program: false,
};

/// The assembler of NVIDIA GPUs.
pub const PTXAS: Tool = Tool {
    name: "ptxas",
    group: "gpu",
    purpose: "assembles for NVIDIA GPUs, with no GPU needed",
    distribution: "nvidia-cuda-nvcc",
    file: "nvidia/cu13/bin/ptxas",
    variable: "OCTILE_PTXAS",
    oldest: Version([13, 0, 0, 0]),
    below: Version([14, 0, 0, 0]),
    program: true,
};

/// The disassembler of NVIDIA GPUs.
pub const NVDISASM: Tool = Tool {
    name: "nvdisasm",
    group: "gpu",
    purpose: "shows the machine code of NVIDIA GPUs",
    distribution: "nvidia-cuda-nvdisasm",
    file: "nvidia/cu13/bin/nvdisasm",
    variable: "OCTILE_NVDISASM",
    oldest: Version([13, 0, 0, 0]),
    below: Version([14, 0, 0, 0]),
    program: true,
};

/// Every tool.
pub const ALL: [&Tool; 3] = [&LIBTPU, &PTXAS, &NVDISASM];

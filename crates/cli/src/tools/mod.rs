//! The vendors' compilers and disassemblers, which Octile calls but does not ship. They come as Python
//! wheels, so they are found in the same way in a virtual environment and in the folder of `octile tools
//! install`.

mod assembler;
mod find;
mod install;
mod version;

pub use assembler::{Assembled, Assembler};
pub use find::{FindError, FoundTool, ToolOrigin, ToolPaths};
pub use install::{InstalledTool, install};
pub use version::ToolVersion;

/// A compiler or disassembler in a wheel.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name in messages.
    pub name: &'static str,
    /// Argument of `octile tools install` that installs it.
    pub group: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
    /// Name of the wheel.
    pub distribution: &'static str,
    /// Path of the file in the unpacked wheel.
    pub file: &'static str,
    /// Environment variable that overrides the search.
    pub variable: &'static str,
    /// Oldest version that works.
    pub oldest: ToolVersion,
    /// Version to install; fixed, so that figures are comparable.
    pub installed: ToolVersion,
    /// SHA-256 of every wheel of that version; no other file is unpacked.
    pub wheels: &'static [&'static str],
    /// Whether it is a program, which may also be in PATH.
    pub program: bool,
}

/// The TPU compiler.
pub const LIBTPU: Tool = Tool {
    name: "libtpu",
    group: "tpu",
    purpose: "compiles for TPUs; no TPU needed",
    distribution: "libtpu",
    file: "libtpu/libtpu.so",
    variable: "OCTILE_LIBTPU",
    oldest: ToolVersion([0, 0, 42, 0]),
    installed: ToolVersion([0, 0, 42, 1]),
    // cp311, cp312, cp313, cp313t, cp314, cp314t, all for Linux on x86-64.
    wheels: &[
        "4d9975c446f594b0b517510b3db2fc9df65acd9a08f253c638fff5eb6bce163e",
        "4026b215b42bca07331aac91d31659394b128b19df848aa6449b30fe16b335a6",
        "32f216b88cf04d3b82693378e5612bd23e3b8b88afc72546561830284a2b0091",
        "38c984c89aab1e6e49588ad9f8fd902d67a775c7ce08948909fdaa7686d16efc",
        "bffd6bf3944473e394cbed1d7f0875e7b338e3f8d278bfd8687c7450724b1e47",
        "1149f6852e08f97c76572ed8e5064131e384a5e5f72fbe2dabb9c807134a3e3f",
    ],
    program: false,
};

/// The PTX assembler.
pub const PTXAS: Tool = Tool {
    name: "ptxas",
    group: "gpu",
    purpose: "assembles for NVIDIA GPUs; no GPU needed",
    distribution: "nvidia-cuda-nvcc",
    file: "nvidia/cu13/bin/ptxas",
    variable: "OCTILE_PTXAS",
    oldest: ToolVersion([13, 0, 0, 0]),
    installed: ToolVersion([13, 4, 92, 0]),
    // Linux on x86-64 and on aarch64.
    wheels: &[
        "a1f3bfb27299e060b444d5df1f4bcd762501326cf0fd3141ed61756816ab9a0e",
        "d6fc9f720c3b73b9e526f4c759dbc6581e1a300ba2c8191e3f0ed91c848a92c8",
    ],
    program: true,
};

/// The SASS disassembler.
pub const NVDISASM: Tool = Tool {
    name: "nvdisasm",
    group: "gpu",
    purpose: "disassembles machine code of NVIDIA GPUs",
    distribution: "nvidia-cuda-nvdisasm",
    file: "nvidia/cu13/bin/nvdisasm",
    variable: "OCTILE_NVDISASM",
    oldest: ToolVersion([13, 0, 0, 0]),
    installed: ToolVersion([13, 4, 92, 0]),
    // Linux on x86-64 and on aarch64.
    wheels: &[
        "f35a5b6ddb64b6758c22c0b078c5b6ff6d54f7c240cd74bf131ab5bf13b6c3fe",
        "b007c08c8248b29281ed9a174b478d557b58ea8a921ab78369a2843f0718f77d",
    ],
    program: true,
};

/// Every tool.
pub const ALL: [&Tool; 3] = [&LIBTPU, &PTXAS, &NVDISASM];

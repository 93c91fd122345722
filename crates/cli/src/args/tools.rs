//! Arguments of `octile tools`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// How tools are found, for the help text.
pub const TOOLS_HELP: &str = "\
Each tool is taken from the first of these places:
  1. the file that a flag of the command names (--libtpu PATH)
  2. the file that its variable names: OCTILE_LIBTPU, OCTILE_PTXAS,
     OCTILE_NVDISASM
  3. the active virtual environment (VIRTUAL_ENV)
  4. what `octile tools install` fetched: into the folder OCTILE_TOOLS or,
     without it, octile/tools in the user's cache folder
  5. for programs, the search path (PATH)

The current folder is not searched: relative folders in VIRTUAL_ENV,
OCTILE_TOOLS and PATH are passed over. Wheels that are installed have to have
one of the checksums that this version of octile knows.

Examples:
  octile tools                  what is found where
  octile tools install tpu      the TPU compiler, about 700 MB unpacked
  octile tools install gpu      ptxas and nvdisasm, about 150 MB unpacked";

/// Arguments of `octile tools`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ToolsArgs {
    /// What to do; without it, list what is found.
    #[command(subcommand)]
    pub action: Option<ToolsAction>,
}

/// What to do with the tools.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum ToolsAction {
    /// Fetch tools as Python wheels; needs python3 with pip, here and only here
    Install {
        /// Which tools
        #[arg(value_enum)]
        group: ToolGroup,
    },
}

/// Tools that are used together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ToolGroup {
    /// The TPU compiler, libtpu
    Tpu,
    /// The assembler and the disassembler of NVIDIA GPUs, ptxas and nvdisasm
    Gpu,
}

//! Arguments of `octile tools`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// Help text of `tools`.
pub(super) const TOOLS_HELP: &str = "\
Search order:
  1. a flag of the command (--libtpu PATH)
  2. OCTILE_LIBTPU, OCTILE_PTXAS, OCTILE_NVDISASM
  3. the active virtual environment (VIRTUAL_ENV)
  4. the folder of `octile tools install`: OCTILE_TOOLS or, if unset,
     octile/tools in the user's cache folder
  5. for programs, PATH

The current folder is not searched: relative folders in VIRTUAL_ENV,
OCTILE_TOOLS and PATH are ignored. The checksums of the wheels are built into
octile; other wheels are not installed.

Examples:
  octile tools                  list tools and where they are
  octile tools install tpu      TPU compiler, about 700 MB unpacked
  octile tools install gpu      ptxas and nvdisasm, about 150 MB unpacked";

/// Arguments of `octile tools`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ToolsArgs {
    /// What to do; lists the tools by default.
    #[command(subcommand)]
    pub action: Option<ToolsAction>,
}

/// What to do with the tools.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum ToolsAction {
    /// Install tools from Python wheels; needs python3 with pip
    Install {
        /// Tools to install
        #[arg(value_enum)]
        group: ToolGroup,
    },
}

/// Tools of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ToolGroup {
    /// TPU compiler: libtpu
    Tpu,
    /// GPU assembler and disassembler: ptxas, nvdisasm
    Gpu,
}

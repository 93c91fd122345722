//! Assembles PTX and disassembles the result; no GPU needed.

use std::{
    path::Path,
    process::{Command, Output},
};

use anyhow::{Result, anyhow, bail};

use octile_runtime::cleanup::GuardedChild;

use crate::print::shown;

use super::{FindError, FoundTool, NVDISASM, PTXAS, ToolOrigin, ToolPaths};

/// ptxas and nvdisasm.
#[derive(Debug, Clone)]
pub struct Assembler {
    /// PTX assembler.
    pub ptxas: FoundTool,
    /// SASS disassembler.
    pub nvdisasm: FoundTool,
}

/// What they report about one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// Registers, memory and spills, as ptxas prints them.
    pub report: String,
    /// The machine code as text.
    pub sass: String,
}

impl Assembler {
    /// Arguments of ptxas before the file names.
    pub const PTXAS_FLAGS: [&str; 2] = ["-arch=sm_90a", "-v"];
    /// Arguments of nvdisasm before the file name.
    pub const NVDISASM_FLAGS: [&str; 1] = ["-c"];

    /// Locates both tools.
    pub fn find() -> Result<Self, FindError> {
        Ok(Self {
            ptxas: PTXAS.find(&ToolPaths::of_process(&PTXAS, None))?,
            nvdisasm: NVDISASM.find(&ToolPaths::of_process(&NVDISASM, None))?,
        })
    }

    /// Assembles the file `ptx` of a folder into the file `cubin`.
    pub fn assemble(&self, folder: &Path, ptx: &str, cubin: &str) -> Result<Assembled> {
        let flags = Self::PTXAS_FLAGS.into_iter().chain([ptx, "-o", cubin]);
        let output = run(&self.ptxas, PTXAS.variable, flags, folder)?;
        let report = text(&output.stdout) + &text(&output.stderr);
        if !output.status.success() {
            bail!("ptxas rejects {ptx}: {}", reason(&report, &output, &self.ptxas, PTXAS.variable));
        }
        if !folder.join(cubin).exists() {
            bail!("ptxas wrote no output for {ptx}: set OCTILE_PTXAS to another ptxas");
        }
        let output =
            run(&self.nvdisasm, NVDISASM.variable, Self::NVDISASM_FLAGS.into_iter().chain([cubin]), folder)?;
        if !output.status.success() {
            let said = text(&output.stderr);
            bail!("nvdisasm rejects {cubin}: {}", reason(&said, &output, &self.nvdisasm, NVDISASM.variable));
        }
        let sass = text(&output.stdout);
        if sass.trim().is_empty() {
            bail!("nvdisasm printed nothing for {cubin}: set OCTILE_NVDISASM to another nvdisasm");
        }
        Ok(Assembled { report, sass })
    }
}

/// Runs a tool in the folder of the files, so that its messages do not name a temporary folder.
fn run<'a>(
    tool: &FoundTool,
    variable: &str,
    arguments: impl Iterator<Item = &'a str>,
    folder: &Path,
) -> Result<Output> {
    let output = GuardedChild::output(Command::new(&tool.path).args(arguments).current_dir(folder));
    output
        .map_err(|error| anyhow!("cannot run {} ({error}): set {variable} to another one", shown(&tool.path)))
}

/// The message of a tool that failed, or its exit status if it printed none.
fn reason(said: &str, output: &Output, tool: &FoundTool, variable: &str) -> String {
    match said.trim() {
        "" => {
            let path = shown(&tool.path);
            let instead = match tool.origin {
                ToolOrigin::Installed => format!("remove {path} and run `octile tools install gpu`"),
                _ => format!("set {variable} to another one than {path}"),
            };
            format!("{} without a message: {instead}", output.status)
        }
        said => said.to_owned(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

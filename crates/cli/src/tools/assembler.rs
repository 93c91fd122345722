//! From PTX to machine code and back to text, with no GPU.

use std::{
    path::Path,
    process::{Command, Output},
};

use anyhow::{Result, anyhow, bail};

use octile_runtime::cleanup::GuardedChild;

use super::{FindError, Found, NVDISASM, Origin, PTXAS, Places};

/// The assembler and disassembler of NVIDIA GPUs.
#[derive(Debug, Clone)]
pub struct Assembler {
    /// PTX to machine code.
    pub ptxas: Found,
    /// Machine code to text.
    pub nvdisasm: Found,
}

/// What they say about one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// The assembler's account of registers, memory and spills.
    pub report: String,
    /// The machine code.
    pub sass: String,
}

impl Assembler {
    /// The arguments of the assembler before the names of its files.
    pub const PTXAS_FLAGS: [&str; 2] = ["-arch=sm_90a", "-v"];
    /// The arguments of the disassembler before the name of its file.
    pub const NVDISASM_FLAGS: [&str; 1] = ["-c"];

    /// The tools of this machine.
    pub fn find() -> Result<Self, FindError> {
        Ok(Self {
            ptxas: PTXAS.find(&Places::of_process(&PTXAS, None))?,
            nvdisasm: NVDISASM.find(&Places::of_process(&NVDISASM, None))?,
        })
    }

    /// Assembles the file `ptx` of a folder into its file `cubin`.
    pub fn assemble(&self, folder: &Path, ptx: &str, cubin: &str) -> Result<Assembled> {
        let flags = Self::PTXAS_FLAGS.into_iter().chain([ptx, "-o", cubin]);
        let output = run(&self.ptxas, PTXAS.variable, flags, folder)?;
        let report = text(&output.stdout) + &text(&output.stderr);
        if !output.status.success() {
            bail!("ptxas does not take {ptx}: {}", reason(&report, &output, &self.ptxas, PTXAS.variable));
        }
        if !folder.join(cubin).exists() {
            bail!("ptxas took {ptx} and wrote nothing: name another one in OCTILE_PTXAS");
        }
        let output =
            run(&self.nvdisasm, NVDISASM.variable, Self::NVDISASM_FLAGS.into_iter().chain([cubin]), folder)?;
        if !output.status.success() {
            let said = text(&output.stderr);
            bail!(
                "nvdisasm does not take {cubin}: {}",
                reason(&said, &output, &self.nvdisasm, NVDISASM.variable)
            );
        }
        let sass = text(&output.stdout);
        if sass.trim().is_empty() {
            bail!("nvdisasm took {cubin} and printed nothing: name another one in OCTILE_NVDISASM");
        }
        Ok(Assembled { report, sass })
    }
}

/// Runs in the folder of the files, so that no message names a temporary one.
fn run<'a>(
    tool: &Found,
    variable: &str,
    arguments: impl Iterator<Item = &'a str>,
    folder: &Path,
) -> Result<Output> {
    let output = GuardedChild::output(Command::new(&tool.path).args(arguments).current_dir(folder));
    output.map_err(|error| {
        anyhow!("{} does not run ({error}): name another one in {variable}", tool.path.display())
    })
}

/// What a tool said when it failed, or how it ended where it said nothing, as a damaged one does.
fn reason(said: &str, output: &Output, tool: &Found, variable: &str) -> String {
    match said.trim() {
        "" => {
            let path = tool.path.display();
            let instead = match tool.origin {
                Origin::Installed => format!("remove {path} and run `octile tools install gpu`"),
                _ => format!("name another one than {path} in {variable}"),
            };
            format!("{}, and it said nothing: {instead}", output.status)
        }
        said => said.to_owned(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
